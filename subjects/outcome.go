package subjects

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/toolbus/toolbus/tool"
)

// MaxMessageBytes bounds every message but a proposal: 512 KiB.
const MaxMessageBytes = 512 << 10

// Outcome is what became of one call, exactly one per call and published at
// least once (the contract, section 3).
type Outcome struct {
	V            Version            `json:"v"`
	RunID        tool.ID            `json:"run_id"`
	SessionID    tool.ID            `json:"session_id"`
	StepNumber   int                `json:"step_number"`
	CallID       string             `json:"call_id"`
	InvocationID tool.ID            `json:"invocation_id"`
	ToolName     string             `json:"tool_name"`
	Status       tool.OutcomeStatus `json:"status"`
	Item         Item               `json:"item"`
	Truncated    bool               `json:"truncated"`
	// OutputBytes is the length of the compact JSON of the canonical content.
	OutputBytes int64 `json:"output_bytes"`
	// Artifact holds the whole output when Item carries an excerpt.
	Artifact *tool.ArtifactRef `json:"artifact"`
	// RunError is the breaker that this call tripped, nil for none.
	RunError *string `json:"run_error"`
	// SynthesisOnly says that every call of the run's next step will fail.
	SynthesisOnly bool `json:"synthesis_only"`
}

// Item is what the model may see of an outcome.
type Item struct {
	Trust   tool.Trust  `json:"trust"`
	Content []tool.Part `json:"content"`
	// Structured is JSON null where there is none or where it is not trusted.
	Structured json.RawMessage `json:"structured"`
	// Outcome stands for the four statuses that are not succeeded.
	Outcome *OutcomeObject `json:"outcome"`
}

// OutcomeObject is the six-field account of a call that did not succeed.
type OutcomeObject struct {
	Status     tool.OutcomeStatus `json:"status"`
	Action     string             `json:"action"`
	ReasonCode string             `json:"reason_code"`
	// Message is fixed per reason code.
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	// Remediation is none or modify_arguments.
	Remediation string `json:"remediation"`
}

// DecodeOutcome reads an outcome. Errors are [*FieldError].
func DecodeOutcome(data []byte) (Outcome, error) {
	var o Outcome
	if err := Decode(data, &o); err != nil {
		return Outcome{}, err
	}
	switch {
	case !o.Status.Valid():
		return Outcome{}, &FieldError{"status", "must be an outcome status"}
	case !o.Item.Trust.Valid():
		return Outcome{}, &FieldError{"item.trust", "must be a trust label"}
	case (o.Status == tool.OutcomeSucceeded) != (o.Item.Outcome == nil):
		return Outcome{}, &FieldError{"item.outcome", "must stand exactly when the call did not succeed"}
	case o.Item.Outcome != nil && o.Item.Outcome.Status != o.Status:
		return Outcome{}, &FieldError{"item.outcome.status", "must be the status of the outcome"}
	}
	return o, nil
}

// PendingKind says what a call waits for.
type PendingKind string

// The kinds of waiting.
const (
	PendingApproval  PendingKind = "approval"
	PendingUserInput PendingKind = "user_input"
	PendingChildRun  PendingKind = "child_run"
)

// Valid reports whether k is in the closed set.
func (k PendingKind) Valid() bool {
	return k == PendingApproval || k == PendingUserInput || k == PendingChildRun
}

// Pending is the notice that a call waits, on the subject of its outcome.
type Pending struct {
	V            Version     `json:"v"`
	RunID        tool.ID     `json:"run_id"`
	SessionID    tool.ID     `json:"session_id"`
	StepNumber   int         `json:"step_number"`
	CallID       string      `json:"call_id"`
	InvocationID tool.ID     `json:"invocation_id"`
	Pending      PendingInfo `json:"pending"`
}

// PendingInfo names what is waited for and until when.
type PendingInfo struct {
	Kind      PendingKind `json:"kind"`
	Ref       string      `json:"ref"`
	ExpiresAt time.Time   `json:"expires_at"`
}

// DecodePending reads a pending notice. Errors are [*FieldError].
func DecodePending(data []byte) (Pending, error) {
	var p Pending
	if err := Decode(data, &p); err != nil {
		return Pending{}, err
	}
	if !p.Pending.Kind.Valid() {
		return Pending{}, &FieldError{"pending.kind", "must be approval, user_input or child_run"}
	}
	return p, nil
}

// RefusalCode says why something became no invocation.
type RefusalCode string

// The refusal codes.
const (
	RefusedMalformed           RefusalCode = "malformed"
	RefusedTenantMismatch      RefusalCode = "tenant_mismatch"
	RefusedUnknownSession      RefusalCode = "unknown_session"
	RefusedSessionClosed       RefusalCode = "session_closed"
	RefusedRunFailed           RefusalCode = "run_failed"
	RefusedRunCancelled        RefusalCode = "run_cancelled"
	RefusedConcurrencyConflict RefusalCode = "concurrency_conflict"
	RefusedCallIDReused        RefusalCode = "call_id_reused"
	RefusedOverloaded          RefusalCode = "overloaded"
)

// RefusalCodes lists every code.
func RefusalCodes() []RefusalCode {
	return []RefusalCode{
		RefusedMalformed, RefusedTenantMismatch, RefusedUnknownSession, RefusedSessionClosed, RefusedRunFailed,
		RefusedRunCancelled, RefusedConcurrencyConflict, RefusedCallIDReused, RefusedOverloaded,
	}
}

// Refusal answers what becomes no invocation, on the subject of outcomes.
type Refusal struct {
	V          Version     `json:"v"`
	RunID      tool.ID     `json:"run_id"`
	StepNumber int         `json:"step_number"`
	N          int         `json:"n"`
	Refusal    RefusalInfo `json:"refusal"`
}

// RefusalInfo says why, and for which calls.
type RefusalInfo struct {
	Code    RefusalCode `json:"code"`
	CallIDs []string    `json:"call_ids"`
	// Message names fields and rules, never values.
	Message string `json:"message"`
}

// DecodeRefusal reads a refusal. Errors are [*FieldError].
func DecodeRefusal(data []byte) (Refusal, error) {
	var r Refusal
	if err := Decode(data, &r); err != nil {
		return Refusal{}, err
	}
	if !slices.Contains(RefusalCodes(), r.Refusal.Code) {
		return Refusal{}, &FieldError{"refusal.code", "must be a refusal code"}
	}
	return r, nil
}

// Answer is one message on an outcome subject: exactly one of its fields is set.
type Answer struct {
	Outcome *Outcome
	Pending *Pending
	Refusal *Refusal
}

// DecodeAnswer reads whatever stands on an outcome subject.
func DecodeAnswer(data []byte) (Answer, error) {
	switch discriminate(data) {
	case "pending":
		p, err := DecodePending(data)
		return Answer{Pending: &p}, err
	case "refusal":
		r, err := DecodeRefusal(data)
		return Answer{Refusal: &r}, err
	default:
		o, err := DecodeOutcome(data)
		return Answer{Outcome: &o}, err
	}
}

// discriminate finds the member that tells a notice or a refusal from an
// outcome.
func discriminate(data []byte) string {
	found := ""
	if !json.Valid(data) {
		return found
	}
	_ = members(data[skipSpace(data, 0):], "", func(name string, _ []byte) error {
		if name == "pending" || name == "refusal" {
			found = name
		}
		return nil
	})
	return found
}
