package pipeline

import (
	"encoding/json"
	"time"

	"github.com/toolbus/toolbus/tool"
)

// NoticeKind says what an outbox entry names. The numbers are stored.
type NoticeKind int16

// The kinds of notices.
const (
	NoticeEvent   NoticeKind = 1 // Ref invocation, Seq event
	NoticeOutcome NoticeKind = 2 // Ref invocation, Seq n of the proposal
	NoticePending NoticeKind = 3 // Ref invocation
	NoticeHint    NoticeKind = 4 // Ref invocation: its batch, or itself, may have work
	NoticeOther   NoticeKind = 5 // Ref other_events
)

// Notice names one message that a committed transition owes the world, with
// the facts it is composed of.
type Notice struct {
	Kind NoticeKind
	Ref  tool.ID
	Seq  int
	// Call is set for all kinds but NoticeOther. It need not be complete for an
	// event: what an event carries is.
	Call *Invocation
	// Event is set for NoticeEvent.
	Event EventRecord
	// Approval is set for NoticePending of a call that waits for one.
	Approval *Approval
	// Other is set for NoticeOther.
	Other *OtherEvent
}

// EventRecord is a row of events.
type EventRecord struct {
	Name       string
	At         time.Time
	Attempt    int
	EffectSent bool
	Outcome    tool.OutcomeStatus
	Reason     string
}

// OtherEvent is an event of no call.
type OtherEvent struct {
	TenantID string
	ID       tool.ID
	Name     string
	RunID    tool.ID
	At       time.Time
	Data     json.RawMessage
}

// Approval is the question put to a person about one exact call.
type Approval struct {
	TenantID      string
	ID            tool.ID
	InvocationID  tool.ID
	ToolName      string
	ToolVersion   string
	ArgumentsHash string
	PolicyVersion string
	MatrixRow     string
	RequestedAt   time.Time
	ExpiresAt     time.Time
	Decision      string
	DecidedAt     time.Time
	DecidedBy     string
	Comment       string
}

// Announcement is what one committed flush owes the world for one tenant. When
// everything in it was published, the outbox row of that id is deleted.
type Announcement struct {
	Outbox  tool.ID
	Tenant  string
	Notices []Notice
	// Tries counts how often a relay took it; 0 on the eager path.
	Tries int
}

// Event names. The seven of the specification, and what a call goes through
// besides.
const (
	EventProposed    = "tool.call.proposed"
	EventAuthorized  = "tool.call.authorized"
	EventDenied      = "tool.call.denied"
	EventStarted     = "tool.call.started"
	EventCompleted   = "tool.call.completed"
	EventFailed      = "tool.call.failed"
	EventUncertain   = "tool.call.uncertain"
	EventAsked       = "approval.requested"
	EventDecided     = "approval.decided"
	EventExpired     = "approval.expired"
	EventSuspended   = "call.suspended"
	EventResumed     = "call.resumed"
	EventLateResult  = "call.late_result"
	EventReviewed    = "uncertain.reviewed"
	EventRunFailed   = "run.failed"
	EventRunCanceled = "run.cancelled"
	EventSettled     = "command.settled"
)

// TerminalEvent gives the event that says a call ended with outcome s.
func TerminalEvent(s tool.OutcomeStatus) string {
	switch s {
	case tool.OutcomeSucceeded:
		return EventCompleted
	case tool.OutcomeDenied:
		return EventDenied
	case tool.OutcomeUncertain:
		return EventUncertain
	case tool.OutcomeFailed, tool.OutcomeUnavailable:
		return EventFailed
	}
	return EventFailed
}
