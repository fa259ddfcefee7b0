package hazards

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/store/storetest"
	"github.com/toolbus/toolbus/tool"
)

// TestHazard07_LostCommit: the answer to COMMIT is lost, after the server has
// committed or while it is still at it. The same flush runs again on another
// connection: nothing is done twice, and the caller gets the first verdict.
func TestHazard07_LostCommit(t *testing.T) {
	t.Parallel()
	for name, lane := range map[string]lane{
		"admit": {"toolbus admit", 2, "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE", loseAdmission},
		"claim": {"toolbus claim", 1, "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE", loseClaim},
		"mark":  {"toolbus mark", 1, "SELECT 1 FROM tool_invocations FOR UPDATE", loseMark},
		"end":   {"toolbus end", 1, "LOCK TABLE outbox IN ACCESS EXCLUSIVE MODE", loseEnd},
	} {
		t.Run(name+" committed", func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p, url := newProxy(t, b.url)
			behind := b.through(t, url)
			lane.run(t, b, behind, func() func() {
				lost := p.lose(lane.application, lane.commits, false)
				return func() { <-lost }
			})
			b.sql.CheckInvariants(t)
		})
		t.Run(name+" under way", func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p, url := newProxy(t, b.url)
			behind := b.through(t, url)
			lane.run(t, b, behind, func() func() {
				release := b.sql.Hold(t, lane.block)
				lost := p.lose(lane.application, lane.commits, true)
				return func() {
					<-lost
					b.sql.AwaitBlocked(t, lane.application, 2) // the old backend, and the rerun behind it
					release(true)
				}
			})
			b.sql.CheckInvariants(t)
		})
	}
}

// lane is one kind of flush: whose connection it is, how many transactions of
// that connection it takes, and what holds its last one up.
type lane struct {
	application string
	commits     int
	block       string
	run         func(t *testing.T, b, behind *bench, arm func() (await func()))
}

// through is another process whose way to the database is the proxy.
func (b *bench) through(t *testing.T, url string) *bench {
	t.Helper()
	n := &bench{url: url, sql: b.sql, table: b.table, session: b.session}
	n.Store = storetest.OpenURL(t, url, n.announce)
	return n
}

func (b *bench) history(t *testing.T, id tool.ID) []string {
	t.Helper()
	records, err := b.History(t.Context(), "acme", id)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(records))
	for i, r := range records {
		names[i] = r.Name
	}
	return names
}

func wantHistory(t *testing.T, b *bench, id tool.ID, want ...string) {
	t.Helper()
	if got := b.history(t, id); !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
}

func loseAdmission(t *testing.T, b, behind *bench, arm func() func()) {
	t.Helper()
	run := tool.NewID()
	b.propose(t, run, 1, call{id: "before", args: "x", class: tool.ReadOnly}) // the run exists
	behind.propose(t, tool.NewID(), 1, once(1)...)                            // and the statements are prepared
	a := b.admission(b.session, run, 2, once(3)...)
	await := arm()
	ruling := later(t, func() (pipeline.Ruling, error) { return behind.Admit(t.Context(), a) })
	await()
	r := ruling()
	if len(r.Refusals) != 0 || len(r.Insert)+len(r.Answer) != 3 {
		t.Errorf("ruling %+v", r)
	}
	if rows := b.sql.Count(t, `SELECT count(*) FROM tool_invocations WHERE step_number = 2`); rows != 3 {
		t.Errorf("%d rows", rows)
	}
	if n := b.sql.Count(t, `SELECT sum(count)::int FROM call_counters WHERE tool_name = 'demo.write' AND step_number = 2`); n != 3 {
		t.Errorf("counted %d times", n)
	}
	for i := range a.Calls {
		wantHistory(t, b, a.Calls[i].Row.ID, pipeline.EventProposed, pipeline.EventAuthorized)
	}
	if used := b.sql.Count(t, `SELECT calls_used FROM runs WHERE id = $1`, run); used != 4 {
		t.Errorf("budget counts %d calls", used)
	}
}

func loseClaim(t *testing.T, b, behind *bench, arm func() func()) {
	t.Helper()
	rows := b.propose(t, tool.NewID(), 1, once(1)...)
	warm(t, b, behind)
	await := arm()
	claims := later(t, func() ([]pipeline.Claim, error) {
		return behind.Claim(t.Context(), request(time.Minute, hintFor(&rows[0])))
	})
	await()
	got := claims()
	if len(got) != 1 || got[0].Attempt != 1 || got[0].ID != rows[0].ID {
		t.Fatalf("claims %+v", got)
	}
	wantHistory(t, b, rows[0].ID, pipeline.EventProposed, pipeline.EventAuthorized, pipeline.EventStarted)
	if v := behind.mark(t, &got[0]); v.Code != "" {
		t.Errorf("the owner is fenced: %+v", v)
	}
}

func loseMark(t *testing.T, b, behind *bench, arm func() func()) {
	t.Helper()
	c := b.running(t, tool.NonIdempotent, time.Minute)
	warm(t, b, behind)
	await := arm()
	verdict := later(t, func() (pipeline.MarkVerdict, error) { return behind.Mark(t.Context(), markOf(c)) })
	await()
	v := verdict()
	if row := b.row(t, c.ID); v.Code != "" || !v.SentAt.Equal(row.EffectSentAt) {
		t.Errorf("verdict %+v, row says %s", v, row.EffectSentAt)
	}
}

func loseEnd(t *testing.T, b, behind *bench, arm func() func()) {
	t.Helper()
	c := b.running(t, tool.NonIdempotent, time.Minute)
	b.mark(t, c)
	warm(t, b, behind)
	await := arm()
	verdict := later(t, func() (pipeline.EndVerdict, error) {
		return behind.End(t.Context(), b.result(c, tool.OutcomeSucceeded, ""))
	})
	await()
	v := verdict()
	if row := b.row(t, c.ID); !v.Written || !v.CompletedAt.Equal(row.CompletedAt) {
		t.Errorf("verdict %+v, row says %s", v, row.CompletedAt)
	}
	wantHistory(t, b, c.ID, pipeline.EventProposed, pipeline.EventAuthorized, pipeline.EventStarted, pipeline.EventCompleted)
	if n := b.sql.Count(t, `SELECT count(*) FROM late_results`); n != 0 {
		t.Error("a result of the owner was kept as a stranger's")
	}
}

// warm takes a call of its own through every lane, so that statements are
// prepared and transactions can be counted.
func warm(t *testing.T, b, behind *bench) {
	t.Helper()
	rows := b.propose(t, tool.NewID(), 1, once(1)...)
	got := behind.take(t, time.Minute, hintFor(&rows[0]))
	behind.mark(t, &got[0])
	behind.finish(t, behind.result(&got[0], tool.OutcomeSucceeded, ""))
}

// TestHazard07_LostCommand: a command whose COMMIT was lost is sent again and
// finds its recorded result.
func TestHazard07_LostCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, url := newProxy(t, b.url)
	behind := b.through(t, url)
	m := pipeline.CommandMeta{Tenant: "acme", ID: "revoke-1", Kind: "revoke", Actor: "operator"}
	lost := p.lose(pool, 1, false)
	if got, err := behind.Revoke(t.Context(), m, "p", []string{"mail.send"}); err == nil {
		t.Fatalf("the answer was not lost: %+v", got)
	}
	<-lost
	got, err := behind.Revoke(t.Context(), m, "p", []string{"mail.send"})
	if err != nil || got.Result != "applied" || !got.Repeated {
		t.Errorf("%+v %v", got, err)
	}
}

// TestHazard08_OneBadValue: one operation of a flush of two hundred cannot be
// stored. It alone fails; the others are written, and not one by one.
func TestHazard08_OneBadValue(t *testing.T) {
	t.Parallel()
	const n, bad = 200, 117
	t.Run("end", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		claims := make([]*pipeline.Claim, n)
		for i := range claims {
			claims[i] = b.running(t, tool.Idempotent, time.Hour)
		}
		plug := b.running(t, tool.Idempotent, time.Hour)
		ends := make([]*pipeline.Ending, n)
		for i, c := range claims {
			ends[i] = b.result(c, tool.OutcomeSucceeded, "")
			if i == bad {
				ends[i].Settlement.Result = []byte(`{"content":[{"type":"text","text":"\u0000"}]}`)
			}
		}
		before := b.Stats()["end"][1]
		errs := plugged(t, b, "toolbus end", plug.ID, func() { b.finish(t, b.result(plug, tool.OutcomeSucceeded, "")) }, n, func(i int) error {
			v, err := b.End(t.Context(), ends[i])
			if err == nil && !v.Written {
				t.Errorf("%d was not written", i)
			}
			return err
		})
		wantOneUnstorable(t, errs, bad)
		if flushes := b.Stats()["end"][1] - before; flushes > 20 {
			t.Errorf("%d flushes for one bad value", flushes)
		}
	})
	t.Run("admit", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		run := tool.NewID()
		b.propose(t, run, 1, once(1)...)
		ops := make([]*pipeline.Admission, n)
		for i := range ops {
			ops[i] = b.admission(b.session, tool.NewID(), 1, once(1)...)
			if i == bad {
				ops[i].Calls[0].Row.PolicyVersion = "a\x00b"
			}
		}
		release := b.sql.Hold(t, `SELECT 1 FROM runs WHERE id = $1 FOR UPDATE`, run)
		plug := later(t, func() (pipeline.Ruling, error) {
			return b.Admit(t.Context(), b.admission(b.session, run, 2, once(1)...))
		})
		b.sql.AwaitBlocked(t, "toolbus admit", 1)
		wait := together(n, func(i int) error { _, err := b.Admit(t.Context(), ops[i]); return err })
		release(false)
		plug()
		wantOneUnstorable(t, wait(), bad)
		if rows := b.sql.Count(t, `SELECT count(*) FROM tool_invocations`); rows != n+1 {
			t.Errorf("%d rows", rows)
		}
	})
}

// plugged holds the lane up with an operation on a locked call, queues n others,
// and lets go.
func plugged(t *testing.T, b *bench, application string, id tool.ID, plug func(), n int, do func(int) error) []error {
	t.Helper()
	release := b.sql.Hold(t, `SELECT 1 FROM tool_invocations WHERE id = $1 FOR UPDATE`, id)
	done := later(t, func() (struct{}, error) { plug(); return struct{}{}, nil })
	b.sql.AwaitBlocked(t, application, 1)
	wait := together(n, do)
	release(false)
	done()
	return wait()
}

// together runs do for 0 to n-1 at once and gives a function that waits for all.
func together(n int, do func(int) error) func() []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	return func() []error {
		wg.Wait()
		return errs
	}
}

func wantOneUnstorable(t *testing.T, errs []error, bad int) {
	t.Helper()
	for i, err := range errs {
		if (err != nil) != (i == bad) || (i == bad && !errors.Is(err, pipeline.ErrUnstorable)) {
			t.Errorf("operation %d: %v", i, err)
		}
	}
}

// TestHazard09_OpposingFlushes: processes whose flushes touch the same rows in
// opposite order wait for each other and never deadlock.
func TestHazard09_OpposingFlushes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stores := []*bench{b, b.another(t), b.another(t)}
	const n = 30
	runs := make([]tool.ID, n)
	admissions := make([]*pipeline.Admission, n)
	for i := range runs {
		runs[i] = tool.NewID()
		admissions[i] = b.admission(b.session, runs[i], 1, once(3)...)
	}
	shuffled := func(round int, do func(i int)) {
		order := rand.New(rand.NewPCG(9, uint64(round))).Perm(n)
		for _, i := range order {
			do(i)
		}
	}
	var all sync.WaitGroup
	for s, st := range stores {
		for worker := range 8 {
			all.Go(func() {
				shuffled(s*100+worker, func(i int) { // the same step, redelivered
					a := *admissions[i]
					a.N = worker % 2
					if _, err := st.Admit(t.Context(), &a); err != nil {
						t.Error(err)
					}
				})
				shuffled(s*100+worker+50, func(i int) { opposing(t, st, admissions, i, worker) })
			})
		}
	}
	all.Wait()
	if ended := b.sql.Count(t, `SELECT count(*) FROM tool_invocations WHERE completed_at IS NOT NULL`); ended == 0 {
		t.Error("nothing ended")
	}
	b.sql.CheckInvariants(t)
}

// opposing claims from many batches, beats, marks and ends what it got.
func opposing(t *testing.T, st *bench, admissions []*pipeline.Admission, i, worker int) {
	t.Helper()
	var hints []pipeline.Hint
	for k := range 5 {
		hints = append(hints, hintFor(&admissionRow(admissions, i*(k+1)+worker).Row))
	}
	for _, c := range st.take(t, time.Minute, hints...) {
		if c.Over != "" {
			continue
		}
		if st.mark(t, &c).Code != "" {
			continue // its run has ended
		}
		if _, err := st.Heartbeat(t.Context(), []pipeline.Heartbeat{{Tenant: "acme", ID: c.ID, Attempt: c.Attempt, Claim: c.ClaimID}}, time.Minute); err != nil {
			t.Error(err)
		}
		status, code := tool.OutcomeSucceeded, ""
		if worker == 0 && c.Class == tool.NonIdempotent {
			status, code = tool.OutcomeUncertain, "tool.outcome_unknown"
		}
		st.finish(t, st.result(&c, status, code))
	}
	if _, err := st.EndRun(t.Context(), pipeline.CommandMeta{Tenant: "acme", ID: fmt.Sprint("end-", i), Kind: "run_end", Actor: "a"},
		admissions[i].RunID, pipeline.RunEnded, "", "tool.not_started", st.settle); err != nil {
		t.Error(err)
	}
}

func admissionRow(all []*pipeline.Admission, i int) *pipeline.Judged {
	j := all[i%len(all)].Calls[0]
	j.Row.Group = all[i%len(all)].Group
	return &j
}
