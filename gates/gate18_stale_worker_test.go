package gates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/store"
	"github.com/toolbus/toolbus/store/storetest"
	"github.com/toolbus/toolbus/test/systemtest"
	"github.com/toolbus/toolbus/tool"
)

// The places where a worker is made to hold still.
const (
	beforeWatermark = "before the watermark"
	beforeEffect    = "between watermark and effect"
	afterEffect     = "after the effect"
)

// staleKit adds tools that hold still at the place that the file "hold" names,
// whatever becomes of their context, and let go when the file "resume" is there.
func staleKit(o *app.Options) {
	for name, class := range map[string]tool.Idempotency{
		"demo.hesitant_once": tool.NonIdempotent, "demo.hesitant_again": tool.Idempotent, "demo.hesitant_keyed": tool.ConditionallyIdempotent,
	} {
		spec := declaration(tool.Builtin, func(s *tool.Spec) {
			s.Name, s.SideEffect, s.Idempotency, s.TimeoutSeconds = name, tool.WorkspaceWrite, class, 60
		})
		o.Tools = append(o.Tools, &hesitant{declared: declared{spec: spec}, hold: holder(o.DataDir), sink: o.DemoSink})
	}
	hold := holder(o.DataDir)
	o.Probe = systemtest.Probe(func(step pipeline.Step, edge pipeline.Edge, _ tool.ID) {
		if step == pipeline.StepExecute && edge == pipeline.Before {
			hold.at(beforeWatermark)
		}
	})
}

// holder is the directory that a test and a held worker share.
type holder string

func (h holder) file(name string) string { return filepath.Join(string(h), name) }

// at holds still if this is the place; whoever passes first takes the file away.
func (h holder) at(place string) {
	said, err := os.ReadFile(h.file("hold"))
	if err != nil || string(said) != place || os.Rename(h.file("hold"), h.file("held")) != nil {
		return
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if there(h.file("resume")) {
			return
		}
	}
}

func there(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

type hesitant struct {
	declared
	hold holder
	sink string
}

// Execute implements [tool.Tool].
func (h *hesitant) Execute(ctx context.Context, _ json.RawMessage, exec *tool.Execution) (tool.Result, error) {
	h.hold.at(beforeEffect)
	if err := exec.MarkEffectSent(ctx); err != nil {
		return tool.Result{}, err
	}
	effect, err := json.Marshal(map[string]any{
		"tool": h.spec.Name, "idempotency_key": exec.IdempotencyKey, "attempt": exec.AttemptNumber, "invocation_id": exec.InvocationID,
	})
	if err != nil {
		return tool.Result{}, err
	}
	f, err := os.OpenFile(h.sink, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return tool.Result{}, err
	}
	_, err = f.Write(append(effect, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return tool.Result{}, err
	}
	h.hold.at(afterEffect)
	return tool.Succeed(tool.Text("the worker's own words")), nil
}

// TestGate18_StaleWorker: a worker is stopped past its lease until recovery has
// acted, and goes on: nothing that it writes counts any more, no effect starts,
// and what it has to tell is kept as evidence.
func TestGate18_StaleWorker(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		tool, place string
		// status and attempt are those of the row once recovery has acted.
		status  tool.Status
		attempt int
		effects int
		late    int
	}{
		{"demo.hesitant_once", beforeWatermark, tool.Succeeded, 2, 1, 0},
		{"demo.hesitant_once", beforeEffect, tool.Uncertain, 1, 0, 0},
		{"demo.hesitant_once", afterEffect, tool.Uncertain, 1, 1, 1},
		{"demo.hesitant_again", beforeWatermark, tool.Succeeded, 2, 1, 0},
		{"demo.hesitant_again", beforeEffect, tool.Succeeded, 2, 1, 0},
		{"demo.hesitant_again", afterEffect, tool.Succeeded, 2, 2, 1},
		{"demo.hesitant_keyed", afterEffect, tool.Succeeded, 2, 2, 1},
	} {
		t.Run(strings.TrimPrefix(tc.tool, "demo.")+" "+tc.place, func(t *testing.T) {
			t.Parallel()
			c := gate18Hold(t, tc.tool, tc.place)
			outcome := c.runtime.Outcome(t, 1, "c1")
			acted := systemtest.Value[string](t, c.sql, `SELECT status || ' ' || attempt_number FROM tool_invocations WHERE id = $1`, c.id)
			if want := fmt.Sprint(tc.status, " ", tc.attempt); acted != want {
				t.Fatalf("recovery made it %q, want %q", acted, want)
			}
			before := gate18Row(t, c)

			if err := os.WriteFile(c.hold.file("resume"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			c.worker.Cont()
			systemtest.Await(t, "the worker's own word that it lost the call", func() bool {
				return strings.Contains(c.worker.Output(), "call was not ended here")
			})
			gate18Refused(t, c)
			if after := gate18Row(t, c); after != before {
				t.Errorf("the row changed:\n%s\n%s", before, after)
			}
			effects := c.system.Effects(t)
			if len(effects) != tc.effects {
				t.Errorf("effects %+v, want %d", effects, tc.effects)
			}
			for _, e := range effects {
				if e.IdempotencyKey != effects[0].IdempotencyKey {
					t.Error("an attempt had a key of its own")
				}
			}
			gate18Evidence(t, c, tc.late)
			if again := c.runtime.Outcome(t, 1, "c1"); again.Status != outcome.Status {
				t.Errorf("outcome became %s", again.Status)
			}
			c.sql.CheckInvariants(t)
		})
	}
}

// gate18Case is one call whose first worker holds still.
type gate18Case struct {
	system  *systemtest.System
	sql     *systemtest.SQL
	hold    holder
	runtime *systemtest.Runtime
	worker  *systemtest.Process
	id      tool.ID
	claim   tool.ID
}

// gate18Hold has a worker claim a call and hold still, stops the process, and
// only then lets another worker in.
func gate18Hold(t *testing.T, name, place string) gate18Case {
	t.Helper()
	s := systemtest.New(t)
	s.Config.Lease.Seconds = 5 // long enough to come to the place on a busy machine
	s.Start(t, staleKit, app.Gatekeeper, app.Recovery)
	c := gate18Case{system: s, sql: s.SQL(t), hold: holder(s.Dir)}
	if err := os.WriteFile(c.hold.file("hold"), []byte(place), 0o600); err != nil {
		t.Fatal(err)
	}
	c.worker = s.SpawnKit(t, "stale", app.Executor)
	c.runtime = s.OpenRuntime(t, "acme", nil)
	c.runtime.Propose(t, 1, systemtest.Call("c1", name, `{}`))
	systemtest.Await(t, "the worker to hold still", func() bool { return there(c.hold.file("held")) })
	c.worker.Stop()
	c.id = systemtest.Value[tool.ID](t, c.sql, `SELECT id FROM tool_invocations WHERE run_id = $1`, c.runtime.Run)
	c.claim = systemtest.Value[tool.ID](t, c.sql, `SELECT claim_id FROM tool_invocations WHERE run_id = $1 AND attempt_number = 1`, c.runtime.Run)
	s.Config.Lease.Seconds = 30 // however slow the machine is, the other worker keeps its calls
	s.Start(t, staleKit, app.Executor)
	return c
}

// gate18Row is what must not change, the history up to the evidence included.
func gate18Row(t *testing.T, c gate18Case) string {
	t.Helper()
	return systemtest.Value[string](t, c.sql, `SELECT concat_ws(' ', status, attempt_number, claim_id, outcome_status, reason_code, effect_sent_at, completed_at,
		encode(item, 'hex'), (SELECT string_agg(event || ' ' || attempt, ',' ORDER BY seq) FROM events e
			WHERE e.invocation_id = t.id AND event <> 'call.late_result'))
		FROM tool_invocations t WHERE id = $1`, c.id)
}

// gate18Refused tries the stale worker's three writes once more, itself.
func gate18Refused(t *testing.T, c gate18Case) {
	t.Helper()
	st := storetest.OpenURL(t, c.system.Database, nil)
	beats, err := st.Heartbeat(t.Context(), []pipeline.Heartbeat{{Tenant: "acme", ID: c.id, Attempt: 1, Claim: c.claim}}, time.Minute)
	if err != nil || beats[0].Held {
		t.Errorf("heartbeat: %+v %v", beats, err)
	}
	mark, err := st.Mark(t.Context(), &pipeline.Mark{Tenant: "acme", ID: c.id, Attempt: 1, Claim: c.claim})
	if err != nil || mark.Code != pipeline.Fenced {
		t.Errorf("watermark: %+v %v", mark, err)
	}
	end, err := st.End(t.Context(), gate18Ending(t, st, c))
	if err != nil || end.Written {
		t.Errorf("terminal write: %+v %v", end, err)
	}
}

func gate18Ending(t *testing.T, st *store.Store, c gate18Case) *pipeline.Ending {
	t.Helper()
	row, err := st.Invocation(t.Context(), "acme", c.id)
	if err != nil {
		t.Fatal(err)
	}
	table, err := outcome.Load()
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Ending{
		Row: &row.Invocation, Expect: tool.Running, Attempt: 1, Claim: c.claim,
		Settlement: pipeline.Settle(table, row.ToolName, pipeline.End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeInternal}),
	}
}

// gate18Evidence wants what the worker had to tell beside the row, word for word,
// and an event that says so. One more is what gate18Refused tried.
func gate18Evidence(t *testing.T, c gate18Case, late int) {
	t.Helper()
	told := c.sql.Count(t, `SELECT count(*) FROM events WHERE invocation_id = $1 AND event = 'call.late_result'`, c.id)
	kept := systemtest.Column[string](t, c.sql, `SELECT outcome_status || ' ' || coalesce(result::text, '') FROM late_results WHERE invocation_id = $1`, c.id)
	if len(kept) != 1 || told != 1 {
		t.Fatalf("evidence %q, told %d times", kept, told)
	}
	if own := strings.Contains(kept[0], "the worker's own words"); own != (late == 1) {
		t.Errorf("evidence %q", kept)
	}
}
