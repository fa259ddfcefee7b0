package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/test/systemtest"
	"github.com/toolbus/toolbus/tool"
)

// TestStorm kills gatekeepers and executors at random while calls of every
// class go through them. Every call ends once; nothing that must not be
// repeated is; an uncertain call is one that may have had its effect.
func TestStorm(t *testing.T) {
	t.Parallel()
	s := systemtest.New(t)
	s.Config.Lease.Seconds = 0.6
	s.Config.Recovery.MaximumAttempts = 50
	stop := storm(t, s)
	classes := []string{systemtest.WriteReadOnly, systemtest.WriteIdempotent, systemtest.WriteConditional, systemtest.WriteOnce}
	r := s.OpenRuntime(t, "acme", nil)
	const runs, steps = 4, 6
	var wg sync.WaitGroup
	for range runs {
		run := r.NewRun(t)
		wg.Go(func() {
			for step := range steps {
				calls := make([]subjects.Call, 4)
				for i, name := range classes {
					calls[i] = systemtest.Call(fmt.Sprintf("c%d", i), name, fmt.Sprintf(`{"payload":{"s":%d},"delay_after_seconds":0.02}`, step))
				}
				run.Propose(t, step, calls...)
				for i := range calls {
					run.Outcome(t, step, fmt.Sprintf("c%d", i))
				}
			}
		})
	}
	wg.Wait()
	stop()
	db := s.SQL(t)
	s.AwaitIdle(t)
	db.CheckInvariants(t)
	if n := db.Count(t, `SELECT count(*) FROM tool_invocations`); n != runs*steps*4 {
		t.Errorf("%d rows", n)
	}
	if n := db.Count(t, `SELECT count(*) FROM tool_invocations WHERE status NOT IN ('succeeded', 'uncertain')`); n != 0 {
		t.Errorf("%d calls ended neither well nor uncertain", n)
	}
	times := map[tool.ID]int{}
	for _, e := range s.Effects(t) {
		if e.Tool == systemtest.WriteOnce {
			times[e.InvocationID]++
		}
	}
	for id, n := range times {
		if n > 1 {
			t.Errorf("the effect of %s happened %d times", id, n)
		}
	}
	t.Logf("uncertain: %d, attempts beyond the first: %d, late results: %d",
		db.Count(t, `SELECT count(*) FROM tool_invocations WHERE status = 'uncertain'`),
		db.Count(t, `SELECT coalesce(sum(attempt_number - 1), 0) FROM tool_invocations`),
		db.Count(t, `SELECT count(*) FROM late_results`))
}

// storm runs two gatekeepers and three executors as processes and kills one of
// them again and again, until it is told to stop.
func storm(t *testing.T, s *systemtest.System) (stop func()) {
	t.Helper()
	s.Start(t, func(o *app.Options) { o.Tools = systemtest.WriteTools(s.Sink) }, app.Recovery)
	roles := []app.Service{app.Gatekeeper, app.Gatekeeper, app.Executor, app.Executor, app.Executor}
	processes := make([]*systemtest.Process, len(roles))
	for i, role := range roles {
		processes[i] = s.SpawnKit(t, "writers", role)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(200+random.IntN(500)) * time.Millisecond):
			}
			i := random.IntN(len(roles))
			processes[i].Kill()
			processes[i] = s.SpawnKit(t, "writers", roles[i])
		}
	})
	return func() { cancel(); wg.Wait() }
}
