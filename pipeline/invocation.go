package pipeline

import (
	"encoding/json"
	"time"

	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/tool"
)

// Authority says on what ground a call was authorized; the pre-effect check
// asks whether that ground still stands.
type Authority string

// The grounds.
const (
	ByPolicy   Authority = "policy"
	ByApproval Authority = "approval"
	ByStanding Authority = "standing"
)

// Invocation is a row of tool_invocations: one call, from proposal to outcome.
// It is a plain record; the store fills it and nothing else changes one that
// came from the store.
type Invocation struct {
	TenantID  string
	ID        tool.ID
	SessionID tool.ID
	RunID     tool.ID
	Step      int
	CallID    string

	ToolName    string
	ToolVersion string
	Source      tool.Source
	ServerID    string
	Target      tool.Target
	SideEffect  tool.SideEffect
	// Class is the idempotency class as it was believed when the call was
	// authorized; recovery reads it here, never from a registry.
	Class tool.Idempotency

	// Arguments are the canonical bytes: validated, hashed, approved and sent.
	Arguments     []byte
	ArgumentsHash string
	Key           string
	ArgumentTrust map[string]tool.Trust
	OriginTrust   tool.Trust

	PolicyVersion string
	MatrixRow     string
	Authority     Authority
	AuthorityID   tool.ID

	// N is the highest n of the proposals that named this call.
	N int
	// Group is shared by the calls of one proposal; zero for a single call.
	Group    tool.ID
	Position int
	Parallel bool

	Status   tool.Status
	Attempt  int
	ClaimID  tool.ID
	EventSeq int

	CreatedAt    time.Time
	StartedAt    time.Time
	CompletedAt  time.Time
	DeadlineAt   time.Time
	EffectSentAt time.Time // zero: nothing was sent

	SuspendedKind string
	SuspendedRef  string

	Settlement

	TraceParent string
}

// EffectSent reports whether the watermark is set.
func (i *Invocation) EffectSent() bool { return !i.EffectSentAt.IsZero() }

// Settlement is the end of a call, as it is written in the terminal row.
type Settlement struct {
	Outcome tool.OutcomeStatus
	Reason  string
	// Item is the rendered item of the outcome message, nonces included: what
	// is published, and published again, byte for byte.
	Item json.RawMessage
	// Rendered is what Item encodes, kept so that the message can be composed
	// without decoding it; nil when the row was read back.
	Rendered    *outcome.Item
	OutputBytes int64
	Truncated   bool
	Artifact    *tool.ArtifactRef
	// Result is the canonical content, intact up to the tool's own maximum.
	Result json.RawMessage
	// Error is for operators: kind, code, detail, external text.
	Error json.RawMessage
	// RunError stands on the call that tripped a breaker.
	RunError string
	// SynthesisOnly stands on the outcome that ends a step after which only an
	// answer is wanted.
	SynthesisOnly bool
	// Evidence is the digest of what a successful call observed; it is folded
	// into the counter and not stored with the row.
	Evidence string
}

// Terminal reports whether the call has ended.
func (s *Settlement) Terminal() bool { return s.Outcome != "" }

// Claim is a call this process owns until Until, or one it has to settle
// without running it.
type Claim struct {
	Invocation
	// Until is when the lease ends by the database clock, Now what that clock
	// said as the claim committed: only their difference means something here.
	Until time.Time
	Now   time.Time
	// Over is the reason code with which the call ends without being run; empty
	// when it may run.
	Over string
	// Answer is the answer of a suspended call: Execute enters at step 11.
	Answer json.RawMessage
	// StillHeld says, by the holder's own clock, that the lease has not ended; nil
	// means that nobody keeps one. It is asked last thing before an effect.
	StillHeld func() bool
	// HotRun: calls of the same run that are counted one below the loop threshold make
	// the end of a step worth a look under the run's lock.
	HotRun bool
}

// held reports whether the holder may still begin an effect.
func (c *Claim) held() bool { return c.StillHeld == nil || c.StillHeld() }

// Run is the state of a run as a transaction sees it under the run's lock.
type Run struct {
	ID         tool.ID
	SessionID  tool.ID
	Status     RunStatus
	Error      string
	DeadlineAt time.Time
	CallsUsed  int
	Restarts   int
	// HotStep is the step that left an identical-call count one below its
	// threshold; -1 for none.
	HotStep int
}

// RunStatus is the state of a run.
type RunStatus string

// The run states.
const (
	RunOpen      RunStatus = "open"
	RunFailed    RunStatus = "failed"
	RunCancelled RunStatus = "cancelled"
	RunEnded     RunStatus = "ended"
)

// The run errors that a breaker raises.
const (
	RunErrorPolicyDenied = "tool_policy_denied"
	RunErrorLoopDetected = "tool_loop_detected"
)
