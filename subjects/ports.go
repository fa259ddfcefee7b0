package subjects

import "time"

// Delivery is one message as a handler sees it. Data and Header belong to the
// handler until it returns and must not be changed.
type Delivery struct {
	Subject string
	Data    []byte
	// Header carries the trace context, nil when there is none.
	Header map[string]string
	// Deliveries counts how often the message was delivered, this time included;
	// 0 outside a stream.
	Deliveries int
	// Sequence is the position in the stream; 0 outside a stream.
	Sequence uint64
}

// Action is what is to become of a delivered message.
type Action int

// The actions. The zero value is the one that loses nothing.
const (
	// ActionRetry has the message delivered again.
	ActionRetry Action = iota
	// ActionAck settles the message.
	ActionAck
	// ActionPark ends the message for good, with a reason.
	ActionPark
)

// Verdict is what a handler returns about a delivery; only the bus touches the
// message itself. The zero Verdict is a retry.
type Verdict struct {
	Action Action
	// After is how long a retry waits; the bus bounds it by 30 seconds.
	After time.Duration
	// Reason is a short code of ours, for operators.
	Reason string
}

// Ack settles the message. Commit first: after an ack nothing redelivers.
func Ack() Verdict { return Verdict{Action: ActionAck} }

// Retry has the message delivered again after a while. Longer waits than 30
// seconds are facts for the database, not for the bus.
func Retry(after time.Duration) Verdict { return Verdict{Action: ActionRetry, After: after} }

// Park ends a message that can never work. Record it first; reason is a code of
// ours, never text of the sender.
func Park(reason string) Verdict { return Verdict{Action: ActionPark, Reason: reason} }

// Publication is one message to be stored in a stream.
type Publication struct {
	// Stream is the one expected to store the message; another one is an error.
	Stream  string
	Subject string
	// ID is the message id for deduplication; empty for none. Proposals and
	// commands carry none, since ids are shared by all tenants of a stream.
	ID   string
	Data []byte
	// Header carries the trace context, nil for none.
	Header map[string]string
}
