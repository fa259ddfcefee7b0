package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// defaultTracePath is where a collector takes spans unless its URL has a path.
const defaultTracePath = "/v1/traces"

// TracingOptions say where spans go.
type TracingOptions struct {
	// Endpoint is the http or https URL of an OTLP collector; empty: no spans.
	Endpoint string
	// Service and Version name the process in its spans.
	Service string
	Version string
	// Logger is told of spans that could not be sent; nil for nobody.
	Logger *slog.Logger
	// IDs gives span ids; nil for random ones.
	IDs sdktrace.IDGenerator
}

// Tracing makes spans. Safe for concurrent use.
type Tracing struct {
	trace.TracerProvider
	// Enabled is false when spans go nowhere.
	Enabled  bool
	shutdown func(context.Context) error
}

// ErrEndpoint says that the address of the collector is not the URL of one.
var ErrEndpoint = errors.New("trace endpoint must be an http or https URL")

// StartTracing begins to send spans in the background, in batches; a collector
// that is away costs spans and nothing else. Errors: [ErrEndpoint], or why the
// exporter could not be made.
func StartTracing(ctx context.Context, o TracingOptions) (*Tracing, error) {
	if o.Endpoint == "" {
		return &Tracing{TracerProvider: noop.NewTracerProvider(), shutdown: func(context.Context) error { return nil }}, nil
	}
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" {
		return nil, ErrEndpoint
	}
	if endpoint.Path == "" || endpoint.Path == "/" {
		endpoint.Path = defaultTracePath
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint.String()))
	if err != nil {
		return nil, fmt.Errorf("trace exporter: %w", err)
	}
	return newTracing(o, sdktrace.WithBatcher(newQuietExporter(exporter, o.Logger))), nil
}

func newTracing(o TracingOptions, more ...sdktrace.TracerProviderOption) *Tracing {
	options := append([]sdktrace.TracerProviderOption{
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", o.Service), attribute.String("service.version", o.Version),
		)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
	}, more...)
	if o.IDs != nil {
		options = append(options, sdktrace.WithIDGenerator(o.IDs))
	}
	provider := sdktrace.NewTracerProvider(options...)
	return &Tracing{TracerProvider: provider, Enabled: true, shutdown: provider.Shutdown}
}

// Shutdown sends what is left, for as long as ctx allows, and ends the
// background work.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if err := t.shutdown(ctx); err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	return nil
}

// quietExporter tells the process's own logger what the library would print.
type quietExporter struct {
	sdktrace.SpanExporter
	log *slog.Logger
}

func newQuietExporter(e sdktrace.SpanExporter, log *slog.Logger) sdktrace.SpanExporter {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &quietExporter{SpanExporter: e, log: log}
}

// ExportSpans sends spans; those that cannot be sent are given up.
func (q *quietExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := q.SpanExporter.ExportSpans(ctx, spans); err != nil {
		q.log.WarnContext(ctx, "spans were not sent", "spans", len(spans), "cause", err.Error())
	}
	return nil
}

// Extract gives a context whose span is the remote one that the header names;
// without a valid traceparent, ctx itself.
func Extract(ctx context.Context, header map[string]string) context.Context {
	if header["traceparent"] == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(header))
}

// Inject gives the header that carries the span of ctx; nil when it has none.
func Inject(ctx context.Context) map[string]string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, header)
	return header
}
