package observer

import (
	"context"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolbus/toolbus/internal/observe"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// The names of the spans.
const (
	spanExecute  = "tool.execute"
	spanValidate = "tool.validate"
	spanPolicy   = "policy.evaluate"
)

// scope names what makes the spans.
const scope = "github.com/toolbus/toolbus/observer"

// A tool may report that many numbers, under names of that length.
const (
	maximumMetrics    = 32
	maximumMetricName = 64
)

// Observer makes spans of executions. Safe for concurrent use.
type Observer struct{ tracer trace.Tracer }

var _ pipeline.Observer = (*Observer)(nil)

// New makes an observer whose spans go to the provider.
func New(provider trace.TracerProvider) *Observer { return &Observer{tracer: provider.Tracer(scope)} }

// Start begins the span tool.execute for one claim of a call, in the trace that
// the call was proposed in. Spans begun with the context are its children.
func (o *Observer) Start(ctx context.Context, c *pipeline.Claim) (context.Context, func(pipeline.Executed)) {
	ctx = observe.Extract(ctx, map[string]string{"traceparent": c.TraceParent})
	ids := wanted{trace: traceOf(c.ID)}
	if c.Attempt == 1 {
		ids.span = spanOf(c.ID)
	}
	// The wish is for this span alone: its children must not inherit it.
	_, span := o.tracer.Start(context.WithValue(ctx, wantedKey{}, ids), spanExecute, trace.WithAttributes(identity(c)...))
	return trace.ContextWithSpan(ctx, span), func(x pipeline.Executed) { end(span, &x) }
}

func identity(c *pipeline.Claim) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		attribute.String("tool.name", c.ToolName),
		attribute.String("tool.source", string(c.Source)),
		attribute.String("tool.version", c.ToolVersion),
		attribute.String("tool.idempotency_class", string(c.Class)),
	}
	if !c.Group.IsZero() {
		attributes = append(attributes, attribute.String("tool.parallel_group", c.Group.String()))
	}
	return attributes
}

func end(span trace.Span, x *pipeline.Executed) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(metrics(x.Metrics)...)
	if x.Lost || !x.Settlement.Terminal() {
		span.SetStatus(codes.Error, "lost")
		return
	}
	span.SetAttributes(
		attribute.String("tool.outcome_status", string(x.Settlement.Outcome)),
		attribute.Bool("tool.truncated", x.Settlement.Truncated),
	)
	if x.Settlement.Reason != "" {
		span.SetAttributes(attribute.String("tool.reason_code", x.Settlement.Reason))
	}
	switch x.Settlement.Outcome {
	case tool.OutcomeFailed, tool.OutcomeUnavailable, tool.OutcomeUncertain:
		span.SetStatus(codes.Error, x.Settlement.Reason)
	case tool.OutcomeSucceeded, tool.OutcomeDenied:
	}
}

// metrics gives the numbers that a tool reported. Their names come from the
// tool, so only such are taken as cannot carry text.
func metrics(reported map[string]int64) []attribute.KeyValue {
	var attributes []attribute.KeyValue
	for _, name := range slices.Sorted(maps.Keys(reported)) {
		if len(attributes) == maximumMetrics {
			break
		}
		if validMetric(name) {
			attributes = append(attributes, attribute.Int64("tool.metric."+name, reported[name]))
		}
	}
	return attributes
}

func validMetric(name string) bool {
	if name == "" || len(name) > maximumMetricName {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
