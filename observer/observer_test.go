package observer_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/toolbus/toolbus/internal/observe"
	"github.com/toolbus/toolbus/observer"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	proposalTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	proposalSpan   = "00f067aa0ba902b7"
	traceparent    = "00-" + proposalTrace + "-" + proposalSpan + "-01"
	notSampled     = "00-" + proposalTrace + "-" + proposalSpan + "-00"
	argumentSecret = "customer@example.com"
)

func recorded(t *testing.T) (*observer.Observer, *tracetest.InMemoryExporter, *sdktrace.TracerProvider) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSyncer(exporter), sdktrace.WithIDGenerator(observer.NewIDs()),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
	)
	return observer.New(provider), exporter, provider
}

func claim(parent string) *pipeline.Claim {
	return &pipeline.Claim{Invocation: pipeline.Invocation{
		TenantID: "acme", ID: tool.NewID(), CallID: "call_1", ToolName: "mcp.acme.create_ticket", ToolVersion: "9d02f1", Source: tool.MCP,
		Class: tool.NonIdempotent, Group: tool.NewID(), Attempt: 1, TraceParent: parent,
		Arguments: []byte(`{"to":"` + argumentSecret + `"}`),
	}}
}

func only(t *testing.T, e *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	for _, s := range e.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans are named %s, want 1", len(found), name)
	}
	return found[0]
}

func attributes(s tracetest.SpanStub) map[string]any {
	out := map[string]any{}
	for _, a := range s.Attributes {
		out[string(a.Key)] = a.Value.AsInterface()
	}
	return out
}

func TestExecuteSpan(t *testing.T) {
	t.Parallel()
	o, spans, _ := recorded(t)
	c := claim(traceparent)
	_, ended := o.Start(t.Context(), c)
	ended(pipeline.Executed{
		Settlement: pipeline.Settlement{
			Outcome: tool.OutcomeFailed, Reason: "tool.upstream_error", Truncated: true,
			Item: []byte(argumentSecret), Result: []byte(argumentSecret), Error: []byte(argumentSecret),
		},
		Metrics: map[string]int64{"pages": 3, "cache.hits": 1, argumentSecret: 7, "": 1},
	})
	got := only(t, spans, "tool.execute")
	want := map[string]any{
		"tool.name": "mcp.acme.create_ticket", "tool.source": "mcp", "tool.version": "9d02f1",
		"tool.idempotency_class": "non_idempotent", "tool.parallel_group": c.Group.String(),
		"tool.outcome_status": "failed", "tool.reason_code": "tool.upstream_error", "tool.truncated": true,
		"tool.metric.pages": int64(3), "tool.metric.cache.hits": int64(1),
	}
	if diff := cmp.Diff(want, attributes(got)); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if got.SpanContext.TraceID().String() != proposalTrace || got.Parent.SpanID().String() != proposalSpan {
		t.Errorf("trace %s under %s, want that of the proposal", got.SpanContext.TraceID(), got.Parent.SpanID())
	}
	if got.Status.Code != codes.Error || got.Status.Description != "tool.upstream_error" {
		t.Errorf("status %+v, want an error with the reason", got.Status)
	}
}

func TestExecuteStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		executed pipeline.Executed
		want     codes.Code
		outcome  attribute.Key
	}{
		"succeeded":   {pipeline.Executed{Settlement: pipeline.Settlement{Outcome: tool.OutcomeSucceeded}}, codes.Unset, "tool.outcome_status"},
		"denied":      {pipeline.Executed{Settlement: pipeline.Settlement{Outcome: tool.OutcomeDenied}}, codes.Unset, "tool.outcome_status"},
		"uncertain":   {pipeline.Executed{Settlement: pipeline.Settlement{Outcome: tool.OutcomeUncertain}}, codes.Error, "tool.outcome_status"},
		"unavailable": {pipeline.Executed{Settlement: pipeline.Settlement{Outcome: tool.OutcomeUnavailable}}, codes.Error, "tool.outcome_status"},
		"lost":        {pipeline.Executed{Settlement: pipeline.Settlement{Outcome: tool.OutcomeSucceeded}, Lost: true}, codes.Error, ""},
		"unsettled":   {pipeline.Executed{}, codes.Error, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, spans, _ := recorded(t)
			_, ended := o.Start(t.Context(), claim(""))
			ended(test.executed)
			got := only(t, spans, "tool.execute")
			if got.Status.Code != test.want {
				t.Errorf("status %v, want %v", got.Status.Code, test.want)
			}
			if _, said := attributes(got)["tool.outcome_status"]; said != (test.outcome != "") {
				t.Errorf("outcome said: %t", said)
			}
		})
	}
}

// admit walks the probe through admission, as far as the given step.
func admit(ctx context.Context, p pipeline.Probe, id tool.ID, last pipeline.Step) {
	for step := pipeline.StepResolve; step <= last; step++ {
		p.At(ctx, step, pipeline.Before, id, tool.NonIdempotent)
		p.At(ctx, step, pipeline.After, id, tool.NonIdempotent)
	}
	if last < pipeline.StepIntent {
		p.At(ctx, pipeline.StepIntent, pipeline.Before, id, tool.NonIdempotent)
		p.At(ctx, pipeline.StepIntent, pipeline.After, id, tool.NonIdempotent)
	}
}

func TestAdmissionSpansAreChildrenOfTheExecution(t *testing.T) {
	t.Parallel()
	for name, parent := range map[string]string{"with a trace": traceparent, "without": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, spans, _ := recorded(t)
			c := claim(parent)
			admit(observe.Extract(t.Context(), map[string]string{"traceparent": parent}), o.Probe(nil), c.ID, pipeline.StepIntent)
			_, ended := o.Start(t.Context(), c)
			ended(pipeline.Executed{Settlement: pipeline.Settlement{Outcome: tool.OutcomeSucceeded}})
			execute := only(t, spans, "tool.execute")
			for _, name := range []string{"tool.validate", "policy.evaluate"} {
				child := only(t, spans, name)
				if child.Parent.SpanID() != execute.SpanContext.SpanID() || child.SpanContext.TraceID() != execute.SpanContext.TraceID() {
					t.Errorf("%s is under %s of %s, want tool.execute", name, child.Parent.SpanID(), child.SpanContext.TraceID())
				}
				if child.EndTime.Before(child.StartTime) || child.StartTime.IsZero() {
					t.Errorf("%s lasts from %v to %v", name, child.StartTime, child.EndTime)
				}
			}
		})
	}
}

func TestAdmissionThatEndsEarly(t *testing.T) {
	t.Parallel()
	for last, want := range map[pipeline.Step]int{
		pipeline.StepScopes: 0, pipeline.StepValidate: 1, pipeline.StepNormalize: 1, pipeline.StepPolicy: 2,
	} {
		o, spans, _ := recorded(t)
		admit(t.Context(), o.Probe(nil), tool.NewID(), last)
		if got := len(spans.GetSpans()); got != want {
			t.Errorf("a call that ends at %v has %d spans, want %d", last, got, want)
		}
	}
}

func TestProbeAsksTheNext(t *testing.T) {
	t.Parallel()
	o, _, _ := recorded(t)
	var asked []pipeline.Step
	probe := o.Probe(func(_ context.Context, step pipeline.Step, edge pipeline.Edge, _ tool.ID, _ tool.Idempotency) {
		if edge == pipeline.Before {
			asked = append(asked, step)
		}
	})
	admit(t.Context(), probe, tool.NewID(), pipeline.StepIntent)
	if diff := cmp.Diff(pipeline.Steps()[:8], asked); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestEverySpanHasAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	o, spans, provider := recorded(t)
	c := claim("")
	ctx, ended := o.Start(t.Context(), c)
	_, child := provider.Tracer("test").Start(ctx, "mcp.request")
	child.End()
	ended(pipeline.Executed{})
	c.Attempt = 2
	_, ended = o.Start(t.Context(), c)
	ended(pipeline.Executed{})
	seen := map[string]bool{}
	for _, s := range spans.GetSpans() {
		if s.SpanContext.TraceID().String() != trimmed(c.ID) {
			t.Errorf("%s is in trace %s, want that of the call", s.Name, s.SpanContext.TraceID())
		}
		seen[s.SpanContext.SpanID().String()] = true
	}
	if len(seen) != 3 {
		t.Errorf("3 spans have %d ids", len(seen))
	}
	request := only(t, spans, "mcp.request")
	if first := spans.GetSpans()[1]; request.Parent.SpanID() != first.SpanContext.SpanID() {
		t.Error("what the tool does is not under tool.execute")
	}
}

func trimmed(id tool.ID) string {
	var out []rune
	for _, r := range id.String() {
		if r != '-' {
			out = append(out, r)
		}
	}
	return string(out)
}

func TestTraceThatIsNotSampled(t *testing.T) {
	t.Parallel()
	o, spans, _ := recorded(t)
	c := claim(notSampled)
	admit(observe.Extract(t.Context(), map[string]string{"traceparent": notSampled}), o.Probe(nil), c.ID, pipeline.StepIntent)
	_, ended := o.Start(t.Context(), c)
	ended(pipeline.Executed{})
	if got := len(spans.GetSpans()); got != 0 {
		t.Errorf("%d spans of a trace that nobody records", got)
	}
}
