package pipeline

import (
	"errors"
	"time"

	"github.com/toolbus/toolbus/tool"
)

// What a store says, for errors.Is.
var (
	// ErrUnstorable says that the database refuses the values of one operation.
	ErrUnstorable = errors.New("values cannot be stored")
	// ErrNotFound says that the tenant has no such row.
	ErrNotFound = errors.New("not found")
)

// Hint says that a batch, or a single call, may have something to claim. It
// names no call to run: the claim picks.
type Hint struct {
	Tenant string
	// Batch is the parallel group; zero when Call is set.
	Batch tool.ID
	// Call is a call that belongs to no batch.
	Call tool.ID
}

// ClaimRequest hands over the hints of one fetch. Each hint claims at most one
// call, so a request owns at most len(Hints) calls.
type ClaimRequest struct {
	Hints []Hint
	// ID makes the request idempotent; every lease it takes bears it.
	ID    tool.ID
	Owner string
	Lease time.Duration
	// Window is how many calls of a parallel batch run at once.
	Window          int
	MaximumAttempts int
}

// Mark asks for the effect watermark: the pre-effect authority check and the
// timestamp in one statement (ADR-0040).
type Mark struct {
	Tenant  string
	ID      tool.ID
	Attempt int
	Claim   tool.ID
	// Scopes are the tool's required scopes.
	Scopes []string
}

// MarkVerdict is the answer to a [Mark].
type MarkVerdict struct {
	// Code is empty when the effect may begin; "fenced" when the call is no
	// longer this worker's; else the reason code with which it ends.
	Code string
	// Earlier says that a previous attempt had set the watermark.
	Earlier bool
	SentAt  time.Time
}

// Fenced is the [MarkVerdict] code of a worker that lost its call.
const Fenced = "fenced"

// Ending is the operation that ends a call: by its result, by a verdict of
// recovery, by a decision. It states what it expects of the row, and does
// nothing when the row is in another state.
type Ending struct {
	// Row is the call as the caller read it; identity and classification are
	// taken from it for what is published.
	Row        *Invocation
	Settlement Settlement

	Expect  tool.Status
	Attempt int
	// Claim fences the result of a worker; zero for endings by others.
	Claim tool.ID
	// Suspended expects a suspended row.
	Suspended bool
	// LeaseOver ends only a call that no live lease protects.
	LeaseOver bool
	// EffectSent, when not nil, repeats the watermark that a verdict used.
	EffectSent *bool
	// HotRun and an evidence key make the end of a call a matter of the run's lock.
	HotRun bool
	// Decision closes the approval of a waiting call.
	Decision *ApprovalDecision
}

// ApprovalDecision is how an approval was closed.
type ApprovalDecision struct {
	Decision string // approved | denied | expired | withdrawn
	By       string
	Comment  string
}

// EndVerdict says whether an [Ending] was written.
type EndVerdict struct {
	// Written is false when the row was in another state than expected.
	Written       bool
	CompletedAt   time.Time
	RunError      string
	SynthesisOnly bool
}

// Heartbeat asks to keep the leases of a worker.
type Heartbeat struct {
	Tenant  string
	ID      tool.ID
	Attempt int
	Claim   tool.ID
}

// HeartbeatVerdict is the answer for one lease.
type HeartbeatVerdict struct {
	// Held is false when the lease was lost: the worker stops.
	Held bool
	// RunOver says that the run was cancelled, failed or ended: the call is told
	// to stop, its own result counts if it comes in time.
	RunOver bool
}

// CommandMeta identifies a command; the actor is the one of its subject.
type CommandMeta struct {
	Tenant string
	ID     string
	Kind   string
	Actor  string
}

// CommandResult is how a command was settled.
type CommandResult struct {
	Kind      string
	Result    string // applied | refused
	Code      string
	SettledAt time.Time
	// Repeated says that the command id was known: nothing was done now.
	Repeated bool
}

// Swept is an open call as a sweep found it, with the facts that a verdict may
// use.
type Swept struct {
	Invocation
	DeadlinePassed  bool
	RunStatus       RunStatus
	ApprovalExpired bool
}

// DeadLetter is a message that could not be understood or handled, kept for an
// operator.
type DeadLetter struct {
	Tenant     string
	Kind       string // proposal | command | hint | publication | operation
	Subject    string
	Reason     string
	Payload    []byte
	Deliveries int
}

// InvocationFilter selects calls of one tenant, newest first.
type InvocationFilter struct {
	SessionID tool.ID
	RunID     tool.ID
	Status    tool.Status
	Tool      string
	Waiting   bool    // only those with an open approval, oldest first
	Before    tool.ID // keyset: calls with a smaller id
	Limit     int
}

// Evidence is what is known of an uncertain call beside its row.
type Evidence struct {
	LateResults int
	Verdict     string
	ReviewedBy  string
	ReviewedAt  time.Time
	Comment     string
}
