package subjects

import "github.com/toolbus/toolbus/tool"

// StopSubject is a doorbell between services, in core NATS and exported to
// nobody: the calls of a run that are running should stop. It may be lost.
const StopSubject = "toolbus.stop"

// Stop is its payload.
type Stop struct {
	V        Version `json:"v"`
	TenantID string  `json:"tenant_id"`
	RunID    tool.ID `json:"run_id"`
}
