package subjects

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/toolbus/toolbus/tool"
)

// The event names. A call's events are numbered per call, from 1.
const (
	EventProposed         = "tool.call.proposed"
	EventAuthorized       = "tool.call.authorized"
	EventDenied           = "tool.call.denied"
	EventStarted          = "tool.call.started"
	EventCompleted        = "tool.call.completed"
	EventFailed           = "tool.call.failed"
	EventUncertain        = "tool.call.uncertain"
	EventApprovalRequest  = "approval.requested"
	EventApprovalDecided  = "approval.decided"
	EventApprovalExpired  = "approval.expired"
	EventSuspended        = "call.suspended"
	EventResumed          = "call.resumed"
	EventLateResult       = "call.late_result"
	EventReviewed         = "uncertain.reviewed"
	EventRunFailed        = "run.failed"
	EventRunCancelled     = "run.cancelled"
	EventSkillToolMissing = "skill.tool.missing"
	EventCommandSettled   = "command.settled"
)

// The events of MCP servers and of the programmatic bridge.
const (
	EventServerConnected       = "mcp.server.connected"
	EventServerPinned          = "mcp.server.pinned"
	EventServerDisconnected    = "mcp.server.disconnected"
	EventServerReauthenticated = "mcp.server.reauthenticated"
	EventCatalogChanged        = "mcp.catalog.changed"
	EventCatalogConflict       = "mcp.catalog.conflict"
	EventToolRejected          = "mcp.tool.rejected"
	EventBridgeOpened          = "bridge.session.opened"
	EventBridgeClosed          = "bridge.session.closed"
)

// CallEvent is an event of a call: six members of the envelope and the fifteen
// of the specification ("Events and telemetry"), identity and classification
// and nothing else. Its JSON always has the same members in the same order.
type CallEvent struct {
	V          Version   `json:"v"`
	EventID    string    `json:"event_id"`
	Event      string    `json:"event"`
	OccurredAt time.Time `json:"occurred_at"`
	TenantID   string    `json:"tenant_id"`
	// Seq counts the events of the call, from 1.
	Seq int `json:"seq"`

	InvocationID tool.ID     `json:"invocation_id"`
	RunID        tool.ID     `json:"run_id"`
	StepNumber   int         `json:"step_number"`
	CallID       string      `json:"call_id"`
	ToolName     string      `json:"tool_name"`
	ToolSource   tool.Source `json:"tool_source"`
	ToolVersion  string      `json:"tool_version"`
	// OutcomeStatus, ReasonCode, DurationMS, OutputBytes and ParallelGroup are
	// nil until, and unless, there is something to say.
	OutcomeStatus    *tool.OutcomeStatus `json:"outcome_status"`
	ReasonCode       *string             `json:"reason_code"`
	IdempotencyClass tool.Idempotency    `json:"idempotency_class"`
	EffectSent       bool                `json:"effect_sent"`
	DurationMS       *int64              `json:"duration_ms"`
	OutputBytes      *int64              `json:"output_bytes"`
	Truncated        bool                `json:"truncated"`
	ParallelGroup    *tool.ID            `json:"parallel_group"`
}

// AppendJSON appends the event to b, with EventID and V as they must be,
// without allocating beyond b. The texts in it are of closed grammars (tokens,
// call ids, names, codes) and need little escaping.
func (e *CallEvent) AppendJSON(b []byte) []byte {
	b = append(b, `{"v":1,"event_id":"`...)
	b = appendUUID(b, e.InvocationID)
	b = append(b, ':')
	b = strconv.AppendInt(b, int64(e.Seq), 10)
	b = appendString(append(b, `","event":`...), e.Event)
	b = append(b, `,"occurred_at":"`...)
	b = e.OccurredAt.UTC().AppendFormat(b, time.RFC3339Nano)
	b = appendString(append(b, `","tenant_id":`...), e.TenantID)
	b = strconv.AppendInt(append(b, `,"seq":`...), int64(e.Seq), 10)
	b = appendID(append(b, `,"invocation_id":`...), e.InvocationID)
	b = appendID(append(b, `,"run_id":`...), e.RunID)
	b = strconv.AppendInt(append(b, `,"step_number":`...), int64(e.StepNumber), 10)
	b = appendString(append(b, `,"call_id":`...), e.CallID)
	b = appendString(append(b, `,"tool_name":`...), e.ToolName)
	b = appendString(append(b, `,"tool_source":`...), string(e.ToolSource))
	b = appendString(append(b, `,"tool_version":`...), e.ToolVersion)
	b = appendNullable(append(b, `,"outcome_status":`...), (*string)(e.OutcomeStatus))
	b = appendNullable(append(b, `,"reason_code":`...), e.ReasonCode)
	b = appendString(append(b, `,"idempotency_class":`...), string(e.IdempotencyClass))
	b = strconv.AppendBool(append(b, `,"effect_sent":`...), e.EffectSent)
	b = appendInt(append(b, `,"duration_ms":`...), e.DurationMS)
	b = appendInt(append(b, `,"output_bytes":`...), e.OutputBytes)
	b = strconv.AppendBool(append(b, `,"truncated":`...), e.Truncated)
	b = append(b, `,"parallel_group":`...)
	if e.ParallelGroup == nil {
		b = append(b, "null"...)
	} else {
		b = appendID(b, *e.ParallelGroup)
	}
	return append(b, '}')
}

// DecodeCallEvent reads an event of a call. Errors are [*FieldError].
func DecodeCallEvent(data []byte) (CallEvent, error) {
	var e CallEvent
	if err := Decode(data, &e); err != nil {
		return CallEvent{}, err
	}
	if e.EventID != EventID(e.InvocationID, e.Seq) {
		return CallEvent{}, &FieldError{"event_id", "must be <invocation_id>:<seq>"}
	}
	if e.OutcomeStatus != nil && !e.OutcomeStatus.Valid() {
		return CallEvent{}, &FieldError{"outcome_status", "must be an outcome status"}
	}
	return e, nil
}

// Event is an event that belongs to no call. Data holds ids, codes and counts:
// no arguments, no results, no text from outside.
type Event struct {
	V          Version   `json:"v"`
	EventID    string    `json:"event_id"`
	Event      string    `json:"event"`
	OccurredAt time.Time `json:"occurred_at"`
	TenantID   string    `json:"tenant_id"`
	// RunID is nil for an event of no run.
	RunID *tool.ID       `json:"run_id"`
	Data  map[string]any `json:"data"`
}

// Encode writes the event with the members of Data in order of their names.
func (e *Event) Encode() ([]byte, error) {
	if !ValidEventName(e.Event) {
		return nil, &FieldError{"event", "must be lower-case words joined by dots"}
	}
	data, err := json.Marshal(e)
	if err != nil {
		return nil, &FieldError{"data", "must be encodable"}
	}
	return data, nil
}

// DecodeEvent reads an event of no call. Errors are [*FieldError].
func DecodeEvent(data []byte) (Event, error) {
	var e Event
	if err := Decode(data, &e); err != nil {
		return Event{}, err
	}
	if !ValidEventName(e.Event) {
		return Event{}, &FieldError{"event", "must be lower-case words joined by dots"}
	}
	return e, nil
}

// EventHead is what all events have in common. InvocationID and Seq are zero
// for an event that belongs to no call.
type EventHead struct {
	EventID      string
	Event        string
	InvocationID tool.ID
	Seq          int
}

// SketchEvent reads the head of an event without decoding the rest; what is
// missing or broken is zero.
func SketchEvent(data []byte) EventHead {
	var h EventHead
	_ = members(data[skipSpace(data, 0):], "", func(name string, value []byte) error {
		switch name {
		case "event_id":
			h.EventID, _ = unquote(value)
		case "event":
			h.Event, _ = unquote(value)
		case "seq":
			h.Seq = smallInt(value)
		case "invocation_id":
			text, _ := unquote(value)
			h.InvocationID, _ = tool.ParseID(text)
		}
		return nil
	})
	return h
}
