package observer

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolbus/toolbus/tool"
)

// wanted are the ids that the next span is to have; zero ones are drawn.
type wanted struct {
	trace trace.TraceID
	span  trace.SpanID
}

type wantedKey struct{}

// traceOf is the trace of a call that was proposed without one.
func traceOf(invocation tool.ID) trace.TraceID { return trace.TraceID(invocation) }

// spanOf is the span of the first execution of a call: the random half of its
// id.
func spanOf(invocation tool.ID) trace.SpanID { return trace.SpanID(invocation[8:]) }

// NewIDs makes the id generator that a provider needs for [Observer]. Safe for
// concurrent use.
func NewIDs() sdktrace.IDGenerator { return generator{} }

type generator struct{}

// NewIDs gives the ids of the first span of a trace.
func (generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	w, _ := ctx.Value(wantedKey{}).(wanted)
	for !w.trace.IsValid() {
		binary.NativeEndian.PutUint64(w.trace[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(w.trace[8:], rand.Uint64())
	}
	return w.trace, w.orDrawn()
}

// NewSpanID gives the id of a further span.
func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	w, _ := ctx.Value(wantedKey{}).(wanted)
	return w.orDrawn()
}

func (w *wanted) orDrawn() trace.SpanID {
	for !w.span.IsValid() {
		binary.NativeEndian.PutUint64(w.span[:], rand.Uint64())
	}
	return w.span
}
