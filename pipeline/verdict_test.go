package pipeline_test

import (
	"testing"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// TestRecoverEveryCombination compares the verdict with the specification's
// table, written down independently, over every combination of facts.
func TestRecoverEveryCombination(t *testing.T) {
	t.Parallel()
	classes := []tool.Idempotency{tool.ReadOnly, tool.Idempotent, tool.ConditionallyIdempotent, tool.NonIdempotent}
	cases := 0
	for _, class := range classes {
		for bits := range 1 << 4 {
			e := pipeline.Expired{
				Class: class, EffectSent: bits&1 != 0, DeadlinePassed: bits&2 != 0, RunOver: bits&4 != 0,
				Attempt: 1, MaximumAttempts: 5,
			}
			if bits&8 != 0 {
				e.Attempt = 5
			}
			wantVerdict, wantCode := pipeline.RunAgain, ""
			switch {
			case class == tool.NonIdempotent && e.EffectSent:
				wantVerdict, wantCode = pipeline.GiveUncertain, "tool.outcome_unknown"
			case e.RunOver:
				wantVerdict, wantCode = pipeline.GiveUp, "tool.run_cancelled"
			case e.DeadlinePassed:
				wantVerdict, wantCode = pipeline.GiveUp, "tool.timeout"
			case e.Attempt == 5:
				wantVerdict, wantCode = pipeline.GiveUp, "tool.internal"
			}
			verdict, code := pipeline.Recover(e)
			if verdict != wantVerdict || code != wantCode {
				t.Errorf("%+v: got %s %q, want %s %q", e, verdict, code, wantVerdict, wantCode)
			}
			cases++
		}
	}
	if cases != 64 {
		t.Fatalf("%d combinations", cases)
	}
}
