package hazards

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// TestHazard12_Admission: what a proposal meets when its rows are there already,
// or come to be there meanwhile.
func TestHazard12_Admission(t *testing.T) { //nolint:tparallel // the cases share a database
	t.Parallel()
	b := newBench(t)
	other := b.another(t)
	echo := call{id: "c", args: "x", class: tool.ReadOnly}
	denied := echo
	denied.end = &pipeline.End{Outcome: tool.OutcomeDenied, Reason: outcome.CodeMatrixUnknownTool}

	t.Run("refused early and redelivered", func(t *testing.T) {
		run := tool.NewID()
		b.propose(t, run, 1, denied)
		again := b.admit(t, b.admission(b.session, run, 1, denied))
		if len(again.Insert) != 0 || len(again.Answer) != 1 || again.Answer[0].Status != tool.Denied {
			t.Errorf("%+v", again)
		}
	})
	t.Run("one call id, two sets of arguments, at once", func(t *testing.T) {
		for range 10 {
			run := tool.NewID()
			changed := echo
			changed.args = "y"
			theirs := later(t, func() (pipeline.Ruling, error) {
				return other.Admit(t.Context(), b.admission(b.session, run, 1, changed))
			})
			mine := b.admit(t, b.admission(b.session, run, 1, echo))
			rulings := []pipeline.Ruling{mine, theirs()}
			refused := slices.IndexFunc(rulings, func(r pipeline.Ruling) bool { return len(r.Refusals) == 1 })
			if refused < 0 || rulings[refused].Refusals[0].Code != "call_id_reused" || len(rulings[1-refused].Insert) != 1 {
				t.Fatalf("%+v", rulings)
			}
		}
	})
	t.Run("one call, at once", func(t *testing.T) {
		for range 10 {
			run := tool.NewID()
			theirs := later(t, func() (pipeline.Ruling, error) { return other.Admit(t.Context(), b.admission(b.session, run, 1, echo)) })
			mine := b.admit(t, b.admission(b.session, run, 1, echo))
			r := theirs()
			if len(mine.Insert)+len(r.Insert) != 1 || len(mine.Answer)+len(r.Answer) != 1 {
				t.Fatalf("%+v %+v", mine, r)
			}
		}
	})
	t.Run("redelivered or proposed again", func(t *testing.T) {
		run := tool.NewID()
		rows := b.propose(t, run, 1, echo)
		claims := b.take(t, time.Minute, hintFor(&rows[0]))
		if r := b.admit(t, b.admission(b.session, run, 1, echo)); len(r.Refusals) != 0 {
			t.Errorf("a redelivery is refused: %+v", r.Refusals)
		}
		again := b.admission(b.session, run, 1, echo)
		again.N = 1
		if r := b.admit(t, again); len(r.Refusals) != 1 || r.Refusals[0].Code != "concurrency_conflict" {
			t.Errorf("a re-proposal of a call in flight: %+v", r)
		}
		b.finish(t, b.result(&claims[0], tool.OutcomeSucceeded, ""))
		if r := b.admit(t, again); len(r.Answer) != 1 || !r.Answer[0].Terminal() || len(r.Raise) != 1 {
			t.Errorf("a re-proposal of a call that has ended: %+v", r)
		}
		if n := b.row(t, rows[0].ID).N; n != 1 {
			t.Errorf("the row's n is %d", n)
		}
	})
	t.Run("another set of calls", func(t *testing.T) {
		run := tool.NewID()
		rows := b.propose(t, run, 1, once(2)...)
		more := b.admission(b.session, run, 1, once(3)...)
		more.N = 1
		if r := b.admit(t, more); len(r.Insert) != 0 || len(r.Refusals) != 1 || r.Refusals[0].Code != "malformed" {
			t.Errorf("%+v", r)
		}
		if n := b.sql.Count(t, `SELECT count(*) FROM tool_invocations WHERE run_id = $1`, run); n != len(rows) {
			t.Errorf("%d rows", n)
		}
	})
	t.Run("trust is kept for whoever asks again", func(t *testing.T) {
		a := b.admission(b.session, tool.NewID(), 1, call{id: "c", args: "x", class: tool.NonIdempotent, approval: true})
		a.Calls[0].Row.ArgumentTrust = map[string]tool.Trust{"a": tool.User}
		row := b.admit(t, a).Insert[0]
		waiting, err := b.WaitingCall(t.Context(), "acme", row.AuthorityID)
		if err != nil || waiting.ArgumentTrust["a"] != tool.User || waiting.OriginTrust != tool.User {
			t.Errorf("%+v %v", waiting, err)
		}
	})
	b.sql.CheckInvariants(t)
}

// TestHazard16_InsideOneBatch: counters, "never again" and a failed run among
// calls that are admitted together.
func TestHazard16_InsideOneBatch(t *testing.T) { //nolint:tparallel // the cases share a database
	t.Parallel()
	b := newBench(t)
	denial := &pipeline.End{Outcome: tool.OutcomeDenied, Reason: "policy.rule.denied"}
	same := func(n int, end *pipeline.End) []call {
		calls := once(n)
		for i := range calls {
			calls[i].args, calls[i].end = "same", end
		}
		return calls
	}
	failed := func(t *testing.T, run tool.ID) {
		t.Helper()
		if n := b.sql.Count(t, `SELECT count(*) FROM runs WHERE id = $1 AND status = 'failed' AND error = 'tool_policy_denied'`, run); n != 1 {
			t.Error("the run has not failed")
		}
	}
	t.Run("three identical denials", func(t *testing.T) {
		run := tool.NewID()
		rows := b.propose(t, run, 1, same(3, denial)...)
		if len(rows) != 3 || rows[2].RunError != pipeline.RunErrorPolicyDenied || rows[1].RunError != "" {
			t.Errorf("%+v", rows)
		}
		failed(t, run)
	})
	t.Run("an identical call is uncertain", func(t *testing.T) {
		rows := b.propose(t, tool.NewID(), 1, same(2, nil)...)
		first := b.take(t, time.Minute, hintFor(&rows[0]))
		b.mark(t, &first[0])
		b.finish(t, b.result(&first[0], tool.OutcomeUncertain, outcome.CodeOutcomeUnknown))
		second := b.take(t, time.Minute, hintFor(&rows[1]))
		if len(second) != 1 || second[0].Over != outcome.CodeUncertainRepeat {
			t.Errorf("the second call: %+v", second)
		}
	})
	t.Run("siblings of the third denial", func(t *testing.T) {
		run := tool.NewID()
		calls := append(once(1), same(3, denial)...)
		for i := range calls {
			calls[i].id = fmt.Sprint("c", i)
		}
		rows := b.propose(t, run, 1, append(calls, call{id: "last", args: "z", class: tool.ReadOnly})...)
		failed(t, run)
		if rows[4].Reason != outcome.CodeNotStarted {
			t.Errorf("a sibling behind it: %s %s", rows[4].Status, rows[4].Reason)
		}
		got := b.take(t, time.Minute, hintFor(&rows[0]))
		if len(got) != 1 || got[0].Over != outcome.CodeNotStarted {
			t.Errorf("a sibling before it: %+v", got)
		}
	})
	t.Run("two steps at once", func(t *testing.T) {
		other := b.another(t)
		for range 10 {
			run := tool.NewID()
			theirs := later(t, func() (pipeline.Ruling, error) {
				return other.Admit(t.Context(), b.admission(b.session, run, 2, same(1, denial)...))
			})
			b.propose(t, run, 1, same(2, denial)...)
			theirs()
			failed(t, run)
		}
	})
	b.sql.CheckInvariants(t)
}

// TestHazard21_EverythingEnds: a call that kills its workers is given up, every
// call has a deadline, a hint is not repeated at every sweep, and a cancel
// reaches what it could not see.
func TestHazard21_EverythingEnds(t *testing.T) { //nolint:tparallel // the cases share a database
	t.Parallel()
	b := newBench(t)
	t.Run("attempts", func(t *testing.T) {
		rows := b.propose(t, tool.NewID(), 1, call{id: "c", args: "x", class: tool.Idempotent})
		for attempt := 1; attempt <= 5; attempt++ {
			if got := b.take(t, time.Minute, hintFor(&rows[0])); len(got) != 1 || got[0].Attempt != attempt {
				t.Fatalf("attempt %d: %+v", attempt, got)
			}
			b.sql.Exec(t, `UPDATE invocation_leases SET until = clock_timestamp() - interval '1 second' WHERE invocation_id = $1`, rows[0].ID)
		}
		if got := b.take(t, time.Minute, hintFor(&rows[0])); len(got) != 0 {
			t.Fatalf("a sixth attempt: %+v", got)
		}
		swept, err := b.ExpiredLeases(t.Context(), time.Minute, 100)
		if err != nil || len(swept) != 1 {
			t.Fatalf("%d swept, %v", len(swept), err)
		}
		verdict, code := pipeline.Recover(pipeline.Expired{Class: swept[0].Class, EffectSent: swept[0].EffectSent(), Attempt: swept[0].Attempt, MaximumAttempts: 5})
		if verdict != pipeline.GiveUp || code != outcome.CodeInternal {
			t.Errorf("%s %s", verdict, code)
		}
		if v := b.finish(t, b.verdict(&swept[0].Invocation, 5, false)); !v.Written {
			t.Error("not given up")
		}
	})
	t.Run("deadline", func(t *testing.T) {
		row := b.row(t, b.propose(t, tool.NewID(), 1, once(1)...)[0].ID)
		if row.DeadlineAt.IsZero() {
			t.Error("a call without deadline")
		}
	})
	t.Run("hints of an expired lease", func(t *testing.T) {
		c := b.running(t, tool.Idempotent, time.Minute)
		b.sql.Exec(t, `UPDATE invocation_leases SET until = clock_timestamp() - interval '1 second' WHERE invocation_id = $1`, c.ID)
		swept, err := b.ExpiredLeases(t.Context(), time.Minute, 100)
		if err != nil || len(swept) != 1 {
			t.Fatalf("%d swept, %v", len(swept), err)
		}
		if err := b.Hint(t.Context(), swept); err != nil {
			t.Fatal(err)
		}
		if again, err := b.ExpiredLeases(t.Context(), time.Minute, 100); err != nil || len(again) != 0 {
			t.Errorf("hinted again at once: %d %v", len(again), err)
		}
		b.finish(t, b.verdict(&c.Invocation, 1, false))
	})
	t.Run("cancel beside an admission", func(t *testing.T) {
		other := b.another(t)
		for i := range 20 {
			run := tool.NewID()
			b.propose(t, run, 1, once(1)...)
			cancelled := later(t, func() (pipeline.CommandResult, error) {
				m := pipeline.CommandMeta{Tenant: "acme", ID: fmt.Sprint("cancel-", i), Kind: "cancel", Actor: "a"}
				return other.EndRun(t.Context(), m, run, pipeline.RunCancelled, "", outcome.CodeRunCancelled, b.settle)
			})
			r := b.admit(t, b.admission(b.session, run, 2, once(1)...))
			cancelled()
			for _, row := range r.Insert {
				got := b.take(t, time.Minute, hintFor(&row))
				if len(got) != 0 && got[0].Over != outcome.CodeRunCancelled {
					t.Fatalf("it runs in a cancelled run: %+v", got)
				}
				if ended := b.row(t, row.ID); len(got) == 0 && ended.Reason != outcome.CodeRunCancelled {
					t.Fatalf("it is %s", ended.Status)
				}
			}
		}
	})
}

// looping takes one call of a run through a step and gives how it ended: the
// reason with which it was not dispatched, and whether only an answer is wanted
// next.
func (b *bench) looping(t *testing.T, run tool.ID, step int, args, evidence string) (reason string, synthesis bool) {
	t.Helper()
	rows := b.propose(t, run, step, call{id: "c", args: args, class: tool.ReadOnly})
	if len(rows) == 0 {
		return "refused", false
	}
	if rows[0].Terminal() {
		return rows[0].Reason, rows[0].SynthesisOnly
	}
	got := b.take(t, time.Minute, hintFor(&rows[0]))
	if len(got) != 1 {
		t.Fatalf("step %d: %+v", step, got)
	}
	end := b.result(&got[0], tool.OutcomeSucceeded, "")
	end.Settlement.Evidence = evidence
	return "", b.finish(t, end).SynthesisOnly
}

// TestBreakers: loops of any period are found, new evidence is no loop, and there
// is an end to new evidence.
func TestBreakers(t *testing.T) { //nolint:tparallel // the cases share a database
	t.Parallel()
	b := newBench(t)
	for period, flagged := range map[int]int{1: 4, 2: 7, 3: 10} {
		t.Run(fmt.Sprintf("period %d", period), func(t *testing.T) {
			run := tool.NewID()
			for step := 1; step <= flagged; step++ {
				reason, synthesis := b.looping(t, run, step, fmt.Sprint(step%period), "")
				if reason != "" || synthesis != (step == flagged) {
					t.Fatalf("step %d: %q, only an answer wanted: %v", step, reason, synthesis)
				}
			}
			if reason, _ := b.looping(t, run, flagged+1, "something else", ""); reason != outcome.CodeLoopDetected {
				t.Errorf("the step that should be an answer: %q", reason)
			}
		})
	}
	t.Run("new evidence", func(t *testing.T) {
		run := tool.NewID()
		step := 1
		for ; step <= 36; step++ {
			reason, synthesis := b.looping(t, run, step, "x", fmt.Sprint("page ", step))
			if reason != "" || synthesis != (step == 36) {
				t.Fatalf("observation %d: %q, only an answer wanted: %v", step, reason, synthesis)
			}
		}
		if restarts := b.sql.Count(t, `SELECT restarts FROM runs WHERE id = $1`, run); restarts != pipeline.RestartCap {
			t.Errorf("%d restarts", restarts)
		}
		if reason, _ := b.looping(t, run, step, "x", "yet another page"); reason != outcome.CodeLoopDetected {
			t.Errorf("observation 37: %q", reason)
		}
	})
	t.Run("the cap is the run's", func(t *testing.T) {
		run := tool.NewID()
		for step := 1; step <= 2*17; step++ { // two pages in turn, 16 restarts each
			if reason, _ := b.looping(t, run, step, fmt.Sprint(step%2), fmt.Sprint("page ", step)); reason != "" {
				t.Fatalf("step %d: %q", step, reason)
			}
		}
		for i := range 3 {
			if _, synthesis := b.looping(t, run, 100+i, "third", fmt.Sprint("page ", i)); synthesis {
				t.Errorf("observation %d of a third page wants an answer", i+1)
			}
		}
		if _, synthesis := b.looping(t, run, 110, "third", "page 4"); !synthesis {
			t.Error("a third page is observed for ever")
		}
	})
	t.Run("the same evidence", func(t *testing.T) {
		run := tool.NewID()
		for step := 1; step <= 4; step++ {
			if _, synthesis := b.looping(t, run, step, "x", "page"); synthesis != (step == 4) {
				t.Errorf("step %d: %v", step, synthesis)
			}
		}
	})
	t.Run("evidence that comes just in time", func(t *testing.T) {
		run := tool.NewID()
		for step := 1; step <= 4; step++ {
			evidence := "page"
			if step == 4 {
				evidence = "another page"
			}
			if _, synthesis := b.looping(t, run, step, "x", evidence); synthesis {
				t.Errorf("step %d wants an answer", step)
			}
		}
		if reason, _ := b.looping(t, run, 5, "x", "another page"); reason != "" {
			t.Errorf("step 5: %q", reason)
		}
	})
	t.Run("five in one batch", func(t *testing.T) {
		run := tool.NewID()
		calls := once(5)
		for i := range calls {
			calls[i].args = "same"
		}
		rows := b.propose(t, run, 1, calls...)
		if last := rows[4]; last.Reason != outcome.CodeLoopDetected || last.RunError != pipeline.RunErrorLoopDetected {
			t.Errorf("the fifth: %s %s %s", last.Status, last.Reason, last.RunError)
		}
		if r := b.admit(t, b.admission(b.session, run, 2, once(1)...)); len(r.Refusals) != 1 || r.Refusals[0].Code != "run_failed" {
			t.Errorf("%+v", r.Refusals)
		}
	})
	t.Run("the flag stands on the outcome that ends the step", func(t *testing.T) {
		run := tool.NewID()
		for step := 1; step <= 3; step++ {
			b.looping(t, run, step, "x", "")
		}
		rows := b.propose(t, run, 4, call{id: "a", args: "x", class: tool.ReadOnly}, call{id: "b", args: "y", class: tool.ReadOnly})
		for i := range rows {
			got := b.take(t, time.Minute, hintFor(&rows[i]))
			if v := b.finish(t, b.result(&got[0], tool.OutcomeSucceeded, "")); v.SynthesisOnly != (i == 1) {
				t.Errorf("call %d: %v", i, v.SynthesisOnly)
			}
		}
		for _, row := range b.propose(t, run, 5, once(3)...) {
			if row.Reason != outcome.CodeLoopDetected {
				t.Errorf("%s in the step that should be an answer: %s", row.CallID, row.Reason)
			}
		}
	})
}
