package observer

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// Probe gives a probe that makes the spans of admission and then asks next,
// which may be nil. The context that the pipeline hands it must hold the remote
// span of the proposal, if it came with one. Calls that are denied have no
// tool.execute: their spans name one that was never begun.
func (o *Observer) Probe(next pipeline.Probe) pipeline.Probe {
	a := &admissions{tracer: o.tracer, open: map[tool.ID]*admission{}}
	return func(ctx context.Context, step pipeline.Step, edge pipeline.Edge, id tool.ID, class tool.Idempotency) {
		a.at(ctx, step, edge, id)
		next.At(ctx, step, edge, id, class)
	}
}

// admissions are calls between steps 4 and 8.
type admissions struct {
	tracer trace.Tracer
	mu     sync.Mutex
	open   map[tool.ID]*admission
}

// admission holds when the steps of a call began and ended.
type admission struct{ validate, validated, policy time.Time }

func (a *admissions) at(ctx context.Context, step pipeline.Step, edge pipeline.Edge, id tool.ID) {
	now := time.Now()
	switch {
	case step == pipeline.StepValidate && edge == pipeline.Before:
		a.mu.Lock()
		a.open[id] = &admission{validate: now}
		a.mu.Unlock()
	case step == pipeline.StepValidate, step == pipeline.StepNormalize && edge == pipeline.After:
		a.update(id, func(m *admission) { m.validated = now })
	case step == pipeline.StepPolicy && edge == pipeline.Before:
		a.update(id, func(m *admission) { m.policy = now })
	case step == pipeline.StepPolicy:
		a.update(id, func(m *admission) { a.span(ctx, id, spanPolicy, m.policy, now) })
	case step == pipeline.StepIntent && edge == pipeline.Before:
		// Every call comes by here, however far it came.
		a.update(id, func(m *admission) { a.span(ctx, id, spanValidate, m.validate, m.validated) })
		a.mu.Lock()
		delete(a.open, id)
		a.mu.Unlock()
	}
}

func (a *admissions) update(id tool.ID, change func(*admission)) {
	a.mu.Lock()
	m := a.open[id]
	a.mu.Unlock()
	if m != nil {
		change(m) // a call is admitted by one goroutine
	}
}

// span makes a span that is over, below the tool.execute to come.
func (a *admissions) span(ctx context.Context, id tool.ID, name string, from, to time.Time) {
	if from.IsZero() || to.IsZero() {
		return
	}
	parent := trace.SpanContextConfig{TraceID: traceOf(id), SpanID: spanOf(id), TraceFlags: trace.FlagsSampled, Remote: true}
	if proposal := trace.SpanContextFromContext(ctx); proposal.IsValid() {
		parent.TraceID, parent.TraceFlags = proposal.TraceID(), proposal.TraceFlags()
	}
	below := trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(parent))
	_, span := a.tracer.Start(below, name, trace.WithTimestamp(from))
	span.End(trace.WithTimestamp(to))
}
