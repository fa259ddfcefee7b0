package pipeline

import (
	"cmp"
	"slices"

	"github.com/toolbus/toolbus/tool"
)

// breaker folds the counters of one admission, in batch order: one counter per
// run, one key, three thresholds (Decision 12).
type breaker struct {
	counts map[CounterKey]*Counter
	dirty  map[CounterKey]bool
	step   int
	// synthesis: an earlier step left a count one below its threshold, so only
	// an answer was wanted now.
	synthesis bool
	trip      string
	tripShown bool
}

func newBreaker(f Facts, step int) *breaker {
	b := &breaker{
		counts: make(map[CounterKey]*Counter, len(f.Counters)),
		dirty:  map[CounterKey]bool{},
		step:   step,
		// A step that has been flagged itself may be proposed again.
		synthesis: f.Run.HotStep >= 0 && f.Run.HotStep < step,
	}
	for _, c := range f.Counters {
		b.counts[c.CounterKey] = &c
	}
	return b
}

func (b *breaker) add(key CounterKey) int {
	c := b.counts[key]
	if c == nil {
		c = &Counter{CounterKey: key}
		b.counts[key] = c
	}
	c.Count++
	c.Step = b.step
	b.dirty[key] = true
	return c.Count
}

// judge gives the end of a call that may not be dispatched, or nil.
func (b *breaker) judge(j *Judged, f Facts, budget int, run *Run) *End {
	if run.Status != RunOpen {
		return &End{Outcome: tool.OutcomeFailed, Reason: "tool.not_started"}
	}
	if b.synthesis {
		return &End{Outcome: tool.OutcomeFailed, Reason: "tool.loop_detected"}
	}
	key := CounterKey{Hash: j.Row.ArgumentsHash, Tool: j.Row.ToolName}
	switch n := b.add(key); {
	case n >= IdenticalThreshold:
		b.fail(run, RunErrorLoopDetected)
		return &End{Outcome: tool.OutcomeFailed, Reason: "tool.loop_detected"}
	case n == IdenticalThreshold-1:
		run.HotStep = b.step
	}
	if j.End != nil {
		if j.End.Outcome == tool.OutcomeDenied {
			b.countDenied(key, j.End.Reason, run)
		}
		return j.End
	}
	if b.uncertain(key) {
		return b.deny(j, "tool.uncertain_repeat", run)
	}
	if revoked(j.RequiredScopes, f.Revoked) {
		return b.deny(j, "policy.scope.missing", run)
	}
	if budget > 0 && run.CallsUsed >= budget {
		return &End{Outcome: tool.OutcomeFailed, Reason: "tool.budget_exhausted"}
	}
	return nil
}

func (b *breaker) uncertain(key CounterKey) bool {
	for k, c := range b.counts {
		if k.Hash == key.Hash && k.Tool == key.Tool && k.Outcome == tool.OutcomeUncertain && c.Count > 0 {
			return true
		}
	}
	return false
}

func (b *breaker) deny(j *Judged, code string, run *Run) *End {
	b.countDenied(CounterKey{Hash: j.Row.ArgumentsHash, Tool: j.Row.ToolName}, code, run)
	return &End{Outcome: tool.OutcomeDenied, Reason: code}
}

func (b *breaker) countDenied(key CounterKey, code string, run *Run) {
	key.Outcome, key.Reason = tool.OutcomeDenied, code
	if b.add(key) >= DeniedThreshold {
		b.fail(run, RunErrorPolicyDenied)
	}
}

func (b *breaker) fail(run *Run, why string) {
	run.Status, run.Error, b.trip = RunFailed, why, why
}

// tripped gives the run error for the one call that tripped the breaker.
func (b *breaker) tripped(run *Run) string {
	if b.trip == "" || b.tripShown || run.Status != RunFailed {
		return ""
	}
	b.tripShown = true
	return b.trip
}

// markLastOfStep puts the synthesis-only flag on the outcome that ends the
// step, when the admission itself ends it.
func (b *breaker) markLastOfStep(r *Ruling) {
	if r.Run.Status != RunOpen || r.Run.HotStep < 0 || len(r.Insert) == 0 {
		return
	}
	for i := range r.Insert {
		if !r.Insert[i].Terminal() {
			return
		}
	}
	r.Insert[len(r.Insert)-1].SynthesisOnly = true
}

// changed gives the counters to write, in key order.
func (b *breaker) changed() []Counter {
	out := make([]Counter, 0, len(b.dirty))
	for k := range b.dirty {
		out = append(out, *b.counts[k])
	}
	slices.SortFunc(out, func(x, y Counter) int {
		return cmp.Or(cmp.Compare(x.Hash, y.Hash), cmp.Compare(x.Tool, y.Tool),
			cmp.Compare(x.Outcome, y.Outcome), cmp.Compare(x.Reason, y.Reason))
	})
	return out
}

func revoked(required, taken []string) bool {
	for _, t := range taken {
		if t == "*" || slices.Contains(required, t) {
			return true
		}
	}
	return false
}
