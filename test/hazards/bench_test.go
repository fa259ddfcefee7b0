package hazards

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/toolbus/toolbus/canonical"
	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/store"
	"github.com/toolbus/toolbus/store/storetest"
	"github.com/toolbus/toolbus/test/systemtest"
	"github.com/toolbus/toolbus/tool"
)

// bench is a database with a store on it, and what a test needs to move calls
// through their transitions by hand.
type bench struct {
	*store.Store
	url     string
	sql     *systemtest.SQL
	table   *outcome.Table
	session *pipeline.Session

	mu   sync.Mutex
	owed []pipeline.Announcement
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{url: storetest.URL(t)}
	b.sql = systemtest.OpenSQL(t, b.url)
	b.Store = storetest.OpenURL(t, b.url, b.announce)
	var err error
	if b.table, err = outcome.Load(); err != nil {
		t.Fatal(err)
	}
	b.session = b.open(t, "acme")
	return b
}

// another is a second process on the same database.
func (b *bench) another(t *testing.T) *bench {
	t.Helper()
	n := &bench{url: b.url, sql: b.sql, table: b.table, session: b.session}
	n.Store = storetest.OpenURL(t, b.url, n.announce)
	return n
}

func (b *bench) announce(a pipeline.Announcement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.owed = append(b.owed, a)
}

// hints gives and forgets the hints that this process owes the world.
func (b *bench) hints() []pipeline.Hint {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []pipeline.Hint
	for _, a := range b.owed {
		for _, n := range a.Notices {
			if n.Kind == pipeline.NoticeHint {
				out = append(out, hintFor(n.Call))
			}
		}
	}
	b.owed = nil
	return out
}

func hintFor(c *pipeline.Invocation) pipeline.Hint {
	if c.Group.IsZero() {
		return pipeline.Hint{Tenant: c.TenantID, Call: c.ID}
	}
	return pipeline.Hint{Tenant: c.TenantID, Batch: c.Group}
}

// open opens a session of a tenant.
func (b *bench) open(t *testing.T, tenant string) *pipeline.Session {
	t.Helper()
	pin, err := registry.NewPin([]tool.Spec{{
		Name: "demo.echo", Version: "1", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`),
		SideEffect: tool.EffectNone, Risk: tool.RiskLow, Idempotency: tool.ReadOnly, TimeoutSeconds: 5, MaximumOutputBytes: 4096,
		Kind: tool.Capability, TargetKind: tool.InProcess, OutputTrust: tool.InternalTool, Source: tool.Builtin,
	}})
	if err != nil {
		t.Fatal(err)
	}
	n := &pipeline.Session{
		TenantID: tenant, ID: tool.NewID(), RequestID: tool.NewID().String(), Principal: tool.Principal{ID: "p", Interactive: true},
		AgentID: "a", AgentTools: []string{"*"}, Profile: "default", RunDeadline: time.Hour, Catalog: pipeline.NewCatalog(pin),
	}
	if _, err := b.OpenSession(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return n
}

// call is one call of an admission that a test composes.
type call struct {
	id, args string
	class    tool.Idempotency
	// parallel lets it run beside others, approval makes it wait.
	parallel, approval bool
	end                *pipeline.End
}

// once are calls that must not be repeated, reads are calls that may run side by
// side; all with different arguments.
func once(n int) []call {
	out := make([]call, n)
	for i := range out {
		out[i] = call{id: fmt.Sprintf("c%d", i), args: fmt.Sprint(i), class: tool.NonIdempotent}
	}
	return out
}

func reads(n int) []call {
	out := once(n)
	for i := range out {
		out[i].class, out[i].parallel = tool.ReadOnly, true
	}
	return out
}

// admission composes the operation that a gatekeeper would hand over.
func (b *bench) admission(n *pipeline.Session, run tool.ID, step int, calls ...call) *pipeline.Admission {
	a := &pipeline.Admission{
		Tenant: n.TenantID, SessionID: n.ID, RunID: run, Step: step, Principal: n.Principal, ApprovalExpiry: time.Hour, Settle: b.settle,
	}
	if len(calls) > 1 {
		a.Group = tool.NewID()
	}
	for _, c := range calls {
		arguments := []byte(`{"a":"` + c.args + `"}`)
		sum := sha256.Sum256(arguments)
		row := pipeline.Invocation{
			TenantID: n.TenantID, ID: tool.NewID(), SessionID: n.ID, RunID: run, Step: step, CallID: c.id,
			ToolName: "demo.write", ToolVersion: "1", Source: tool.Builtin, Target: tool.InProcess, SideEffect: tool.ExternalWrite, Class: c.class,
			Arguments: arguments, ArgumentsHash: hex.EncodeToString(sum[:]), OriginTrust: tool.User, Attempt: 1,
			PolicyVersion: "1", MatrixRow: "external_write",
		}
		if c.parallel {
			row.SideEffect = tool.EffectNone
		}
		row.Key = canonical.Key(canonical.KeyInput{
			RunID: run, Step: step, CallID: row.CallID, ToolName: row.ToolName, ToolVersion: row.ToolVersion, ArgumentsHash: row.ArgumentsHash,
		})
		a.Calls = append(a.Calls, pipeline.Judged{
			Row: row, Timeout: time.Second, AllowParallel: c.parallel, NeedsApproval: c.approval, End: c.end,
			MatchStanding: func([]pipeline.StandingRow) (tool.ID, bool) { return tool.ID{}, false },
		})
	}
	return a
}

func (b *bench) settle(row *pipeline.Invocation, e pipeline.End) pipeline.Settlement {
	return pipeline.Settle(b.table, row.ToolName, e)
}

// propose admits calls as a step of a run and gives their rows.
func (b *bench) propose(t *testing.T, run tool.ID, step int, calls ...call) []pipeline.Invocation {
	t.Helper()
	return b.admit(t, b.admission(b.session, run, step, calls...)).Insert
}

func (b *bench) admit(t *testing.T, a *pipeline.Admission) pipeline.Ruling {
	t.Helper()
	r, err := b.Admit(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// take claims what hints allow, for a lease.
func (b *bench) take(t *testing.T, lease time.Duration, hints ...pipeline.Hint) []pipeline.Claim {
	t.Helper()
	got, err := b.Claim(t.Context(), request(lease, hints...))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func request(lease time.Duration, hints ...pipeline.Hint) *pipeline.ClaimRequest {
	return &pipeline.ClaimRequest{Hints: hints, ID: tool.NewID(), Owner: "test", Lease: lease, Window: 8, MaximumAttempts: 5}
}

// running admits one call of a class and claims it.
func (b *bench) running(t *testing.T, class tool.Idempotency, lease time.Duration) *pipeline.Claim {
	t.Helper()
	rows := b.propose(t, tool.NewID(), 1, call{id: "c", args: "x", class: class})
	got := b.take(t, lease, hintFor(&rows[0]))
	if len(got) != 1 || got[0].Over != "" {
		t.Fatalf("claims %+v", got)
	}
	return &got[0]
}

// mark asks for the watermark of a claim.
func (b *bench) mark(t *testing.T, c *pipeline.Claim) pipeline.MarkVerdict {
	t.Helper()
	v, err := b.Mark(t.Context(), markOf(c))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func markOf(c *pipeline.Claim) *pipeline.Mark {
	return &pipeline.Mark{Tenant: c.TenantID, ID: c.ID, Attempt: c.Attempt, Claim: c.ClaimID}
}

// result is the end of a claimed call by its worker.
func (b *bench) result(c *pipeline.Claim, status tool.OutcomeStatus, code string) *pipeline.Ending {
	return &pipeline.Ending{
		Row: &c.Invocation, Expect: tool.Running, Attempt: c.Attempt, Claim: c.ClaimID, HotRun: c.HotRun,
		Settlement: b.settle(&c.Invocation, pipeline.End{Outcome: status, Reason: code}),
	}
}

// verdict is the end of a call by recovery, decided on the given watermark.
func (b *bench) verdict(row *pipeline.Invocation, attempt int, sent bool) *pipeline.Ending {
	end := pipeline.End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeInternal}
	if sent {
		end = pipeline.End{Outcome: tool.OutcomeUncertain, Reason: outcome.CodeOutcomeUnknown}
	}
	return &pipeline.Ending{
		Row: row, Expect: tool.Running, Attempt: attempt, LeaseOver: true, EffectSent: &sent, HotRun: true, Settlement: b.settle(row, end),
	}
}

func (b *bench) finish(t *testing.T, e *pipeline.Ending) pipeline.EndVerdict {
	t.Helper()
	v, err := b.End(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// decide answers the open approval of a call.
func (b *bench) decide(t *testing.T, row pipeline.Invocation, approve bool) pipeline.CommandResult {
	t.Helper()
	m := pipeline.CommandMeta{Tenant: row.TenantID, ID: tool.NewID().String(), Kind: "approval", Actor: "approver"}
	got, err := b.Decide(t.Context(), m, row.AuthorityID, row, pipeline.Reentry{PolicyVersion: "1", MatrixRow: "external_write"},
		func(w pipeline.Waiting) pipeline.Resolution {
			return pipeline.ResolveApproval(w, approve, m.Actor, "", pipeline.Reentry{})
		}, b.settle)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// row reads a call.
func (b *bench) row(t *testing.T, id tool.ID) pipeline.Existing {
	t.Helper()
	e, err := b.Invocation(t.Context(), "acme", id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// expire ends every lease now.
func (b *bench) expire(t *testing.T) {
	t.Helper()
	b.sql.Exec(t, `UPDATE invocation_leases SET until = clock_timestamp() - interval '1 millisecond'`)
}

// later runs something beside the test and gives a function that waits for its
// result.
func later[T any](t *testing.T, do func() (T, error)) func() T {
	t.Helper()
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := do()
		done <- answer{v, err}
	}()
	return func() T {
		t.Helper()
		a := <-done
		if a.err != nil {
			t.Fatal(a.err)
		}
		return a.v
	}
}
