package gates

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/test/systemtest"
	"github.com/toolbus/toolbus/tool"
)

// TestGate08_OneExecution: however many submitters propose the same call, and
// however many gatekeepers and executors there are to take it up, it is executed
// once, has one row, and whoever listens is told one outcome.
func TestGate08_OneExecution(t *testing.T) { //nolint:tparallel // the cases share their processes
	t.Parallel()
	s := systemtest.New(t).Patient()
	for _, service := range []app.Service{app.Gatekeeper, app.Gatekeeper, app.Executor, app.Executor, app.Executor, app.Recovery} {
		s.Spawn(t, service)
	}
	session := s.OpenRuntime(t, "acme", nil)
	for _, submitters := range []int{2, 50} {
		t.Run(fmt.Sprintf("%d submitters of one message", submitters), func(t *testing.T) {
			gate08Submit(t, s, session.NewRun(t), submitters, func(int) int { return 0 })
		})
		t.Run(fmt.Sprintf("%d submitters that re-propose", submitters), func(t *testing.T) {
			gate08Submit(t, s, session.NewRun(t), submitters, func(i int) int { return i })
		})
	}
	t.Run("the same key of another tenant is another call", func(t *testing.T) { gate08Tenants(t, s, session) })
	s.SQL(t).CheckInvariants(t)
}

// gate08Submit proposes one step of two calls many times at once; n gives the n
// of each submitter.
func gate08Submit(t *testing.T, s *systemtest.System, r *systemtest.Runtime, submitters int, n func(int) int) {
	t.Helper()
	var together sync.WaitGroup
	start := make(chan struct{})
	for i := range submitters {
		p := r.Proposal(1,
			systemtest.Call("c1", systemtest.WriteOnce, `{"payload":"`+r.Run.String()+`","delay_after_seconds":0.1}`),
			systemtest.Call("c2", systemtest.WriteConditional, `{"payload":"`+r.Run.String()+`"}`))
		p.N = n(i)
		together.Go(func() {
			<-start
			r.Send(t, p)
		})
	}
	close(start)
	together.Wait()
	r.Outcome(t, 1, "c1")
	r.Outcome(t, 1, "c2")
	s.AwaitIdle(t)
	sql := s.SQL(t)
	for _, call := range []string{"c1", "c2"} {
		if rows := sql.Count(t, `SELECT count(*) FROM tool_invocations WHERE run_id = $1 AND call_id = $2`, r.Run, call); rows != 1 {
			t.Errorf("%s has %d rows", call, rows)
		}
		if got := gate08Outcomes(t, r, call); len(got) != 1 {
			t.Errorf("%s has %d outcomes: %s", call, len(got), bytes.Join(got, []byte("\n")))
		}
	}
	effects := map[string]int{}
	for _, e := range s.Effects(t) {
		if string(e.Payload) == `"`+r.Run.String()+`"` {
			effects[e.Tool]++
		}
	}
	if effects[systemtest.WriteOnce] != 1 || effects[systemtest.WriteConditional] != 1 || len(effects) != 2 {
		t.Errorf("effects %v", effects)
	}
}

// gate08Outcomes gives the different outcomes of a call that were told.
func gate08Outcomes(t *testing.T, r *systemtest.Runtime, call string) [][]byte {
	t.Helper()
	var out [][]byte
	seen := map[string]bool{}
	for _, raw := range r.Answers() {
		a, err := subjects.DecodeAnswer(raw)
		if err != nil {
			t.Fatal(err)
		}
		if a.Outcome != nil && a.Outcome.CallID == call && !seen[string(raw)] {
			seen[string(raw)] = true
			out = append(out, raw)
		}
	}
	return out
}

func gate08Tenants(t *testing.T, s *systemtest.System, acme *systemtest.Runtime) {
	t.Helper()
	run := tool.NewID()
	other := s.OpenRuntime(t, "globex", nil)
	ids := map[tool.ID]bool{}
	for _, r := range []*systemtest.Runtime{acme.ForRun(t, run), other.ForRun(t, run)} {
		r.Propose(t, 1, systemtest.Call("c1", systemtest.WriteOnce, `{"payload":"tenants"}`))
		o := r.Outcome(t, 1, "c1")
		if o.Status != tool.OutcomeSucceeded {
			t.Errorf("%s: %s", r.Tenant, o.Status)
		}
		ids[o.InvocationID] = true
	}
	sql := s.SQL(t)
	if keys := sql.Count(t, `SELECT count(DISTINCT idempotency_key) FROM tool_invocations WHERE run_id = $1`, run); keys != 1 {
		t.Errorf("%d keys: the two calls are not alike", keys)
	}
	effects := 0
	for _, e := range s.Effects(t) {
		if string(e.Payload) == `"tenants"` {
			effects++
		}
	}
	if len(ids) != 2 || effects != 2 {
		t.Errorf("%d calls, %d effects", len(ids), effects)
	}
}
