package pipeline

import (
	"time"

	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/tool"
)

// The thresholds of the circuit breaker (specification, "The circuit breakers").
const (
	DeniedThreshold    = 3
	IdenticalThreshold = 5
	RestartCap         = 32
)

// Facts are what an admission is decided on, read under the lock of its run.
type Facts struct {
	Now           time.Time
	SessionFound  bool
	SessionClosed bool
	Run           Run
	// Existing are the rows of the step, and those that hold one of the keys.
	Existing []Existing
	Counters []Counter
	// Revoked are the scopes taken from the principal since the session opened;
	// "*" takes all.
	Revoked []string
	// Standing is read only for admissions that need an approval.
	Standing []StandingRow
}

// Existing is an earlier row that an admission meets.
type Existing struct {
	Invocation
	// LeaseLive says that a worker holds it now.
	LeaseLive bool
	// Approval is set while the row waits for one.
	Approval *Approval
	// Asked says that a re-proposal wants to know about it: it is told even that
	// the call is merely on its way.
	Asked bool
}

// Counter is a row of call_counters. With Outcome and Reason empty it counts
// identical calls before dispatch.
type Counter struct {
	CounterKey
	Count    int
	Step     int
	Evidence string
}

// CounterKey is the one key of the one breaker (Decision 12).
type CounterKey struct {
	Hash    string
	Tool    string
	Outcome tool.OutcomeStatus
	Reason  string
}

// StandingRow is a standing authorization that is neither expired nor revoked.
type StandingRow struct {
	ID        tool.ID
	Tool      string
	Condition string
}

// Judged is a call after steps 1 to 6, before anything was read under a lock.
type Judged struct {
	// Row is complete but for status, authority and settlement.
	Row Invocation
	// RequiredScopes are asked again against the revocations.
	RequiredScopes []string
	// Timeout is the declared timeout, for the time budget of a parallel batch.
	Timeout time.Duration
	// AllowParallel is the tool's own permission.
	AllowParallel bool
	// Unresolved marks a call whose tool is not in the pin.
	Unresolved bool
	// End is set when steps 1 to 6 ended the call.
	End *End
	// NeedsApproval says that policy wants a person, or a standing authorization.
	NeedsApproval bool
	// Unattended is the code of the denial when nobody is there to ask.
	Unattended string
	// MatchStanding finds the first standing authorization that covers the call.
	// It is pure; nil when NeedsApproval is false.
	MatchStanding func([]StandingRow) (tool.ID, bool)
}

// End is how a call ends before it is dispatched.
type End struct {
	Outcome tool.OutcomeStatus
	Reason  string
	// Detail is for operators.
	Detail string
	// Item replaces the plain item of the reason, as for invalid arguments,
	// whose path and rule the model reads.
	Item *outcome.Item
}

// Admission is one proposal after steps 1 to 6: the operation that the store
// commits, all or nothing. Its ids were drawn before it was handed over, so
// that running it twice finds its own rows.
type Admission struct {
	Tenant    string
	SessionID tool.ID
	RunID     tool.ID
	Step      int
	N         int
	Principal tool.Principal
	Group     tool.ID
	Calls     []Judged
	// MaxToolCalls is the budget of the run; 0 for none.
	MaxToolCalls int
	// ApprovalExpiry is how long a question stays open.
	ApprovalExpiry time.Duration
	// Settle renders the end of a call that never ran.
	Settle func(row *Invocation, end End) Settlement
}

// NeedsStanding reports whether any call may be covered by a standing
// authorization.
func (a *Admission) NeedsStanding() bool {
	for i := range a.Calls {
		if a.Calls[i].NeedsApproval {
			return true
		}
	}
	return false
}

// Refusal answers a proposal, or some of its calls, that become no invocation.
type Refusal struct {
	Code    string
	CallIDs []string
	Message string
}

// Ruling is what an admission writes and says.
type Ruling struct {
	// Refusals stand beside what was admitted; a refusal without call ids means
	// that nothing was.
	Refusals  []Refusal
	Insert    []Invocation
	Approvals []Approval
	Counters  []Counter
	// Run is written back; its status may have become failed.
	Run        Run
	RunChanged bool
	// Raise sets a higher n on rows that a re-proposal named.
	Raise []tool.ID
	// Answer are existing rows whose outcome, notice or hint is due again.
	Answer []Existing
}

// Fold decides an admission: deduplication, the run's state, budget, breakers
// and authority, in batch order. It is pure.
func (a *Admission) Fold(f Facts) Ruling {
	r := Ruling{Run: f.Run}
	fresh, done := a.meet(f, &r)
	if done {
		return r
	}
	if code, text := a.closed(f); code != "" {
		r.Refusals = append(r.Refusals, Refusal{Code: code, Message: text})
		return r
	}
	if len(fresh) == 0 {
		return r
	}
	parallel := a.parallel(f, fresh)
	b := newBreaker(f, a.Step)
	for pos, j := range fresh {
		row := j.Row
		row.DeadlineAt = earlier(row.DeadlineAt, f.Run.DeadlineAt)
		if len(a.Calls) > 1 {
			row.Group, row.Position, row.Parallel = a.Group, pos, parallel
		}
		end := b.judge(j, f, a.MaxToolCalls, &r.Run)
		if end != nil {
			row.Settlement = a.Settle(&row, *end)
			row.RunError = b.tripped(&r.Run)
			row.Status = row.Outcome.RowStatus()
		} else {
			a.authorize(j, &row, f, &r, b)
		}
		row.EventSeq = 2
		r.Insert = append(r.Insert, row)
	}
	b.markLastOfStep(&r)
	r.Counters = b.changed()
	r.RunChanged = r.Run != f.Run
	return r
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// closed says why this run takes no new calls.
func (a *Admission) closed(f Facts) (code, text string) {
	switch {
	case !f.SessionFound: // the session is known, and takes no new runs
		return "session_closed", "the session is closed"
	case f.Run.SessionID != a.SessionID:
		return "unknown_session", "the run belongs to another session"
	case f.SessionClosed:
		return "session_closed", "the session is closed"
	}
	switch f.Run.Status {
	case RunFailed:
		return "run_failed", "the run has failed"
	case RunCancelled, RunEnded:
		return "run_cancelled", "the run has ended"
	case RunOpen:
	}
	return "", ""
}

// meet compares the proposal with the rows that are already there. done means
// that the whole proposal is answered.
func (a *Admission) meet(f Facts, r *Ruling) (fresh []*Judged, done bool) {
	if !f.SessionFound || (!f.Run.SessionID.IsZero() && f.Run.SessionID != a.SessionID) {
		return a.all(), false
	}
	byCall := make(map[string]*Existing, len(f.Existing))
	byKey := make(map[string]*Existing, len(f.Existing))
	for i := range f.Existing {
		e := &f.Existing[i]
		byKey[e.Key] = e
		if !bridged(e.CallID) {
			byCall[e.CallID] = e
		}
	}
	for i := range a.Calls {
		j := &a.Calls[i]
		e := byKey[j.Row.Key]
		if e == nil {
			e = byCall[j.Row.CallID]
		}
		switch {
		case e == nil:
			fresh = append(fresh, j)
		case e.ID == j.Row.ID || (e.Key == j.Row.Key && e.N >= a.N):
			r.Answer = append(r.Answer, *e) // the same message again: complete what is missing
		case e.Key != j.Row.Key:
			r.refuse("call_id_reused", "the call id was used with another tool or other arguments", j.Row.CallID)
		default:
			a.repropose(e, r)
		}
	}
	if len(byCall) > 0 && len(fresh) > 0 && !bridged(fresh[0].Row.CallID) {
		*r = Ruling{Run: f.Run}
		r.Refusals = []Refusal{{Code: "malformed", Message: "calls: a re-proposal names calls of the first proposal only"}}
		return nil, true
	}
	return fresh, len(fresh) == 0
}

func (a *Admission) all() []*Judged {
	out := make([]*Judged, len(a.Calls))
	for i := range a.Calls {
		out[i] = &a.Calls[i]
	}
	return out
}

// repropose answers a deliberate re-proposal of one call (specification,
// "Deduplication on the way in").
func (a *Admission) repropose(e *Existing, r *Ruling) {
	if e.Status == tool.Running && e.SuspendedKind == "" && e.LeaseLive {
		r.refuse("concurrency_conflict", "the call is in flight", e.CallID)
		return
	}
	e.N, e.Asked = a.N, true
	r.Raise = append(r.Raise, e.ID)
	r.Answer = append(r.Answer, *e)
}

func (r *Ruling) refuse(code, message, callID string) {
	for i := range r.Refusals {
		if r.Refusals[i].Code == code {
			r.Refusals[i].CallIDs = append(r.Refusals[i].CallIDs, callID)
			return
		}
	}
	r.Refusals = append(r.Refusals, Refusal{Code: code, Message: message, CallIDs: []string{callID}})
}

func bridged(callID string) bool { return len(callID) > 7 && callID[:7] == "bridge:" }

// parallel is the admission check: all conditions, over the whole batch, before
// any call executes (specification, "The admission check"). Read-only calls
// have no write path to share.
func (a *Admission) parallel(f Facts, fresh []*Judged) bool {
	if len(fresh) < 2 {
		return false
	}
	if a.MaxToolCalls > 0 && f.Run.CallsUsed+len(fresh) > a.MaxToolCalls {
		return false
	}
	for _, j := range fresh {
		if j.Unresolved || !j.AllowParallel || !j.Row.SideEffect.ReadOnly() || j.Row.Class != tool.ReadOnly {
			return false
		}
		if !f.Run.DeadlineAt.IsZero() && f.Now.Add(j.Timeout).After(f.Run.DeadlineAt) {
			return false
		}
	}
	return true
}

// authorize ends steps 6 and 7 for a call that nothing stopped.
func (a *Admission) authorize(j *Judged, row *Invocation, f Facts, r *Ruling, b *breaker) {
	row.Status, row.Authority = tool.Authorized, ByPolicy
	if !j.NeedsApproval {
		r.Run.CallsUsed++
		return
	}
	if id, ok := j.MatchStanding(f.Standing); ok {
		row.Authority, row.AuthorityID = ByStanding, id
		r.Run.CallsUsed++
		return
	}
	if j.Unattended != "" {
		end := b.deny(j, j.Unattended, &r.Run)
		row.Authority = ""
		row.Settlement = a.Settle(row, *end)
		row.RunError = b.tripped(&r.Run)
		row.Status = tool.Denied
		return
	}
	r.Run.CallsUsed++
	approval := Approval{
		TenantID: row.TenantID, ID: tool.NewID(), InvocationID: row.ID,
		ToolName: row.ToolName, ToolVersion: row.ToolVersion, ArgumentsHash: row.ArgumentsHash,
		PolicyVersion: row.PolicyVersion, MatrixRow: row.MatrixRow,
		RequestedAt: f.Now, ExpiresAt: earlier(f.Now.Add(a.ApprovalExpiry), row.DeadlineAt),
	}
	row.Status, row.Authority, row.AuthorityID = tool.WaitingForApproval, ByApproval, approval.ID
	r.Approvals = append(r.Approvals, approval)
}
