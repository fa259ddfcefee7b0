package observe

import (
	dto "github.com/prometheus/client_model/go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Gather gives every metric there is.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) { return m.registry.Gather() }

// MaximumTools is how many tools have series of their own.
const MaximumTools = maximumTools

// NewTracing makes tracing with a processor of the test's.
func NewTracing(o TracingOptions, p sdktrace.SpanProcessor) *Tracing {
	return newTracing(o, sdktrace.WithSpanProcessor(p))
}
