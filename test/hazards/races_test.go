package hazards

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// TestHazard02_WatermarkUnderWay: a watermark has been written and not yet
// committed when recovery lets the call run again. Neither a takeover nor an end
// that was decided on "nothing sent" may pass.
func TestHazard02_WatermarkUnderWay(t *testing.T) {
	t.Parallel()
	const marking = `UPDATE tool_invocations SET effect_sent_at = clock_timestamp() WHERE id = $1`
	t.Run("takeover", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		c := b.running(t, tool.NonIdempotent, time.Minute)
		commit := b.sql.Hold(t, marking, c.ID)
		b.expire(t)
		recovery := b.another(t)
		claims := later(t, func() ([]pipeline.Claim, error) {
			return recovery.Claim(t.Context(), request(time.Minute, hintFor(&c.Invocation)))
		})
		b.sql.AwaitBlocked(t, "toolbus claim", 1)
		commit(true)
		if got := claims(); len(got) != 0 {
			t.Errorf("taken over with its watermark set: %+v", got)
		}
	})
	t.Run("end", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		c := b.running(t, tool.NonIdempotent, time.Minute)
		commit := b.sql.Hold(t, marking, c.ID)
		b.expire(t)
		recovery := b.another(t)
		end := later(t, func() (pipeline.EndVerdict, error) {
			return recovery.End(t.Context(), b.verdict(&c.Invocation, 1, false))
		})
		b.sql.AwaitBlocked(t, "toolbus end", 1)
		commit(true)
		if end().Written {
			t.Error("ended as if nothing had been sent")
		}
		if got := b.row(t, c.ID); got.Status != tool.Running {
			t.Errorf("it is %s", got.Status)
		}
	})
}

// TestHazard02_HeartbeatUnderWay: a heartbeat has extended the lease and not yet
// committed when recovery takes the call for abandoned.
func TestHazard02_HeartbeatUnderWay(t *testing.T) {
	t.Parallel()
	const beating = `UPDATE invocation_leases SET until = clock_timestamp() + interval '1 minute' WHERE invocation_id = $1`
	for name, act := range map[string]func(t *testing.T, b *bench, c *pipeline.Claim) (lane string, acted func() bool){
		"takeover": func(t *testing.T, b *bench, c *pipeline.Claim) (string, func() bool) {
			t.Helper()
			claims := later(t, func() ([]pipeline.Claim, error) {
				return b.Claim(t.Context(), request(time.Minute, hintFor(&c.Invocation)))
			})
			return "toolbus claim", func() bool { return len(claims()) > 0 }
		},
		"uncertain": func(t *testing.T, b *bench, c *pipeline.Claim) (string, func() bool) {
			t.Helper()
			end := later(t, func() (pipeline.EndVerdict, error) { return b.End(t.Context(), b.verdict(&c.Invocation, 1, true)) })
			return "toolbus end", func() bool { return end().Written }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			class := tool.Idempotent
			if name == "uncertain" {
				class = tool.NonIdempotent
			}
			c := b.running(t, class, time.Minute)
			b.mark(t, c)
			b.expire(t)
			commit := b.sql.Hold(t, beating, c.ID)
			lane, acted := act(t, b.another(t), c)
			b.sql.AwaitBlocked(t, lane, 1)
			commit(true)
			if acted() {
				t.Error("the holder was told that it owns a call that was taken")
			}
			if v := b.finish(t, b.result(c, tool.OutcomeSucceeded, "")); !v.Written {
				t.Error("the holder's result was refused")
			}
			b.sql.CheckInvariants(t)
		})
	}
}

// TestHazard02_Storm: eight workers that stall and die, two recoveries and short
// leases: no effect that must not be repeated happens twice, and lease and row
// never contradict each other.
func TestHazard02_Storm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rows := make([]pipeline.Invocation, 40)
	for i := range rows {
		rows[i] = b.propose(t, tool.NewID(), 1, call{id: "c", args: "x", class: tool.NonIdempotent})[0]
	}
	var mu sync.Mutex
	effects := map[tool.ID]int{}
	var workers sync.WaitGroup
	for w := range 4 {
		worker := b.another(t)
		workers.Go(func() {
			for round := range 6 {
				for i := range rows {
					n := i*7 + w + round
					for _, c := range worker.take(t, 20*time.Millisecond, hintFor(&rows[i])) {
						if n%3 == 0 { // dies before the watermark
							continue
						}
						if worker.mark(t, &c).Code != "" {
							continue
						}
						mu.Lock()
						effects[c.ID]++
						mu.Unlock()
						if n%4 != 0 { // or after the effect
							worker.finish(t, worker.result(&c, tool.OutcomeSucceeded, ""))
						}
					}
				}
				swept, err := worker.ExpiredLeases(t.Context(), 0, 100)
				if err != nil {
					t.Error(err)
				}
				for i := range swept {
					if swept[i].EffectSent() {
						worker.finish(t, worker.verdict(&swept[i].Invocation, swept[i].Attempt, true))
					}
				}
			}
		})
	}
	workers.Wait()
	for id, n := range effects {
		if n > 1 {
			t.Errorf("%s had its effect %d times", id, n)
		}
	}
	if len(effects) == 0 {
		t.Error("nothing happened")
	}
	b.sql.CheckInvariants(t)
}

// TestHazard03_LostWakeUp: the first call of a batch ends while its second is
// approved, or denied. Each commit hints for itself, so that whichever is last
// moves the batch on.
func TestHazard03_LostWakeUp(t *testing.T) {
	t.Parallel()
	for name, approve := range map[string]bool{"approved": true, "denied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			calls := once(3)
			calls[1].approval = true
			for range 20 {
				rows := b.propose(t, tool.NewID(), 1, calls...)
				first := b.take(t, time.Minute, hintFor(&rows[0]))
				b.hints()
				other := b.another(t)
				ended := later(t, func() (pipeline.EndVerdict, error) {
					return b.End(t.Context(), b.result(&first[0], tool.OutcomeSucceeded, ""))
				})
				other.decide(t, rows[1], approve)
				ended()
				mine, theirs := b.hints(), other.hints()
				if len(mine) == 0 || len(theirs) == 0 {
					t.Fatalf("a commit owes no hint: %d and %d", len(mine), len(theirs))
				}
				// Whoever comes last has nothing but its own hint.
				for _, hints := range [][]pipeline.Hint{mine[:1], theirs[:1]} {
					want := rows[2].ID
					if approve {
						want = rows[1].ID
					}
					got := b.take(t, time.Minute, hints...)
					if len(got) != 1 || got[0].ID != want {
						t.Fatalf("claimed %+v", got)
					}
					b.finish(t, b.result(&got[0], tool.OutcomeSucceeded, ""))
					if !approve {
						break
					}
					approve = false // and once more, for the third call
				}
				approve = name == "approved"
				b.hints()
			}
		})
	}
}

// TestHazard03_Window: eight calls of a parallel batch end in one flush: their
// hints find eight others, and never more run than the window allows.
func TestHazard03_Window(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rows := b.propose(t, tool.NewID(), 1, reads(32)...)
	hints := b.hints()
	if len(hints) != 8 {
		t.Fatalf("admission owes %d hints", len(hints))
	}
	done := 0
	for len(hints) > 0 {
		got := b.take(t, time.Minute, append(slices.Clone(hints), hintFor(&rows[0]), hintFor(&rows[0]))...)
		if len(got) > 8 || (len(got) != 8 && done < 24) {
			t.Fatalf("%d calls side by side after %d", len(got), done)
		}
		if more := b.another(t).take(t, time.Minute, hints...); len(more) != 0 {
			t.Fatalf("%d beyond the window", len(more))
		}
		var ends sync.WaitGroup
		for i := range got {
			ends.Go(func() { b.finish(t, b.result(&got[i], tool.OutcomeSucceeded, "")) })
		}
		ends.Wait()
		done += len(got)
		if hints = b.hints(); len(hints) != len(got) {
			t.Fatalf("%d hints of %d ends", len(hints), len(got))
		}
		if done == 32 {
			break
		}
	}
	if done != 32 {
		t.Errorf("%d of 32 ran", done)
	}
}

// TestHazard03_SweepHintsWhatCanBeClaimed: behind one slow call nothing is
// hinted, sweep after sweep; and what is hinted is left alone for a while.
func TestHazard03_SweepHintsWhatCanBeClaimed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stalled := func() []pipeline.Swept {
		t.Helper()
		found, err := b.Stalled(t.Context(), 0, 500)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	sequential := b.propose(t, tool.NewID(), 1, once(128)...)
	if found := stalled(); len(found) != 1 || found[0].ID != sequential[0].ID {
		t.Fatalf("%d calls of a sequential batch are hinted", len(found))
	}
	b.take(t, time.Minute, hintFor(&sequential[0]))
	if found := stalled(); len(found) != 0 {
		t.Errorf("%d calls behind a slow one are hinted", len(found))
	}
	parallel := b.propose(t, tool.NewID(), 1, reads(128)...)
	if found := stalled(); len(found) == 0 || len(found) > 8 {
		t.Errorf("%d calls of a parallel batch are hinted", len(found))
	}
	hints := slices.Repeat([]pipeline.Hint{hintFor(&parallel[0])}, 8)
	if got := b.take(t, time.Minute, hints...); len(got) != 8 {
		t.Fatalf("%d claims", len(got))
	}
	if found := stalled(); len(found) != 0 {
		t.Errorf("%d calls behind a full window are hinted", len(found))
	}
	single := b.propose(t, tool.NewID(), 1, call{id: "c", args: "x", class: tool.NonIdempotent})
	found := stalled()
	if len(found) != 1 || found[0].ID != single[0].ID {
		t.Fatalf("%d calls are hinted", len(found))
	}
	if err := b.Hint(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	again, err := b.Stalled(t.Context(), time.Minute, 500)
	if err != nil || len(again) != 0 {
		t.Errorf("hinted again at once: %d %v", len(again), err)
	}
}

// TestHazard04_DuplicateHints: the same hint many times in one fetch, and in the
// fetches of two processes, makes one owner.
func TestHazard04_DuplicateHints(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := b.another(t)
	for _, rows := range [][]pipeline.Invocation{
		b.propose(t, tool.NewID(), 1, once(1)...), b.propose(t, tool.NewID(), 1, once(5)...),
	} {
		hints := slices.Repeat([]pipeline.Hint{hintFor(&rows[0])}, 16)
		theirs := later(t, func() ([]pipeline.Claim, error) { return other.Claim(t.Context(), request(time.Minute, hints...)) })
		mine := b.take(t, time.Minute, hints...)
		got := append(mine, theirs()...)
		if len(got) != 1 || got[0].ID != rows[0].ID || got[0].Attempt != 1 {
			t.Errorf("%d owners: %+v", len(got), got)
		}
	}
	// Of a parallel batch as many as there are hints, each once.
	rows := b.propose(t, tool.NewID(), 1, reads(5)...)
	got := b.take(t, time.Minute, slices.Repeat([]pipeline.Hint{hintFor(&rows[0])}, 16)...)
	seen := map[tool.ID]bool{}
	for _, c := range got {
		seen[c.ID] = true
	}
	if len(got) != 5 || len(seen) != 5 {
		t.Errorf("%d claims of %d calls", len(got), len(seen))
	}
	b.sql.CheckInvariants(t)
}

// TestHazard13_AnsweredSuspension: a suspended call stays suspended until a claim
// takes it with its answer, as another attempt.
func TestHazard13_AnsweredSuspension(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.running(t, tool.NonIdempotent, time.Minute)
	b.mark(t, c)
	b.sql.Exec(t, `UPDATE tool_invocations SET suspended_kind = 'user_input', suspended_ref = 'q' WHERE id = $1`, c.ID)
	b.sql.Exec(t, `DELETE FROM invocation_leases WHERE invocation_id = $1`, c.ID)
	b.sql.Exec(t, `INSERT INTO suspensions (tenant_id, invocation_id, kind, ref) VALUES ('acme', $1, 'user_input', 'q')`, c.ID)
	if got := b.take(t, time.Minute, hintFor(&c.Invocation)); len(got) != 0 {
		t.Fatalf("taken without an answer: %+v", got)
	}
	m := pipeline.CommandMeta{Tenant: "acme", ID: "resume-1", Kind: "resume", Actor: "runtime"}
	if got, err := b.Resume(t.Context(), m, c.ID, []byte(`"blue"`)); err != nil || got.Result != "applied" {
		t.Fatalf("%+v %v", got, err)
	}
	if row := b.row(t, c.ID); row.SuspendedKind == "" {
		t.Error("the command itself let it go on")
	}
	got := b.take(t, time.Minute, hintFor(&c.Invocation))
	if len(got) != 1 || string(got[0].Answer) != `"blue"` || got[0].Attempt != 2 || got[0].Over != "" {
		t.Fatalf("claims %+v", got)
	}
	if v := b.finish(t, b.result(c, tool.OutcomeSucceeded, "")); v.Written {
		t.Error("the attempt before the suspension still counts")
	}
	if v := b.finish(t, b.result(&got[0], tool.OutcomeSucceeded, "")); !v.Written {
		t.Error("the attempt with the answer does not count")
	}
	b.sql.CheckInvariants(t)
}

// TestHazard22_ResultInHand: a result that comes after the lease has ended counts
// until somebody else has acted; heartbeats do not wait for a slow flush.
func TestHazard22_ResultInHand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.running(t, tool.NonIdempotent, time.Minute)
	b.mark(t, c)
	b.expire(t)
	if v := b.finish(t, b.result(c, tool.OutcomeSucceeded, "")); !v.Written {
		t.Error("a result in hand was thrown away")
	}
	c = b.running(t, tool.NonIdempotent, time.Minute)
	b.mark(t, c)
	b.expire(t)
	if v := b.finish(t, b.verdict(&c.Invocation, 1, true)); !v.Written {
		t.Fatal("the verdict was not written")
	}
	if v := b.finish(t, b.result(c, tool.OutcomeSucceeded, "")); v.Written {
		t.Error("a verdict was overwritten")
	}
	if row := b.row(t, c.ID); row.Status != tool.Uncertain {
		t.Errorf("it is %s", row.Status)
	}
	if n := b.sql.Count(t, `SELECT count(*) FROM late_results WHERE invocation_id = $1 AND outcome_status = 'succeeded'`, c.ID); n != 1 {
		t.Error("the result is no evidence")
	}
}

// TestHazard22_HeartbeatsApart: while a flush of another lane waits, leases are
// kept.
func TestHazard22_HeartbeatsApart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	slow, healthy := b.running(t, tool.Idempotent, time.Minute), b.running(t, tool.Idempotent, time.Minute)
	commit := b.sql.Hold(t, `SELECT 1 FROM tool_invocations WHERE id = $1 FOR UPDATE`, slow.ID)
	marked := later(t, func() (pipeline.MarkVerdict, error) { return b.Mark(t.Context(), markOf(slow)) })
	ended := later(t, func() (pipeline.EndVerdict, error) {
		return b.End(t.Context(), b.result(slow, tool.OutcomeSucceeded, ""))
	})
	b.sql.AwaitBlocked(t, "toolbus mark", 1)
	beats, err := b.Heartbeat(t.Context(), []pipeline.Heartbeat{
		{Tenant: "acme", ID: healthy.ID, Attempt: 1, Claim: healthy.ClaimID}, {Tenant: "acme", ID: slow.ID, Attempt: 1, Claim: slow.ClaimID},
	}, time.Minute)
	if err != nil || !beats[0].Held || !beats[1].Held {
		t.Errorf("%+v %v", beats, err)
	}
	commit(false)
	marked()
	ended()
}
