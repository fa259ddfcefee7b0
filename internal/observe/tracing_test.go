package observe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/toolbus/toolbus/internal/observe"
)

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceContextTravels(t *testing.T) {
	t.Parallel()
	if got := observe.Inject(t.Context()); got != nil {
		t.Errorf("without a span: %v", got)
	}
	for _, bad := range []string{"", "00-zz-00f067aa0ba902b7-01", "nonsense", strings.Repeat("0", 5000)} {
		if got := observe.Inject(observe.Extract(t.Context(), map[string]string{"traceparent": bad})); got != nil {
			t.Errorf("%.20q became %v", bad, got)
		}
	}
	ctx := observe.Extract(t.Context(), map[string]string{"traceparent": traceparent})
	if got := observe.Inject(ctx)["traceparent"]; got != traceparent {
		t.Errorf("traceparent %q, want %q", got, traceparent)
	}
	recorder := tracetest.NewSpanRecorder()
	tracing := observe.NewTracing(observe.TracingOptions{Service: "gatekeeper"}, recorder)
	ctx, span := tracing.Tracer("test").Start(ctx, "work")
	if got := observe.Inject(ctx)["traceparent"]; !strings.HasPrefix(got, traceparent[:36]) || got == traceparent {
		t.Errorf("the child's traceparent is %q", got)
	}
	span.End()
	if err := tracing.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if ended := recorder.Ended(); len(ended) != 1 || !strings.Contains(ended[0].Resource().String(), "service.name=gatekeeper") {
		t.Errorf("spans: %v", ended)
	}
}

func TestTracingWithoutACollector(t *testing.T) {
	t.Parallel()
	tracing, err := observe.StartTracing(t.Context(), observe.TracingOptions{})
	if err != nil || tracing.Enabled {
		t.Fatalf("enabled %t, %v", tracing.Enabled, err)
	}
	_, span := tracing.Tracer("test").Start(t.Context(), "work")
	if span.IsRecording() {
		t.Error("spans are recorded for nobody")
	}
	span.End()
	if err := tracing.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for _, endpoint := range []string{"collector:4318", "ftp://collector", "http://", "http://a b"} {
		if _, err := observe.StartTracing(t.Context(), observe.TracingOptions{Endpoint: endpoint}); !errors.Is(err, observe.ErrEndpoint) {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

func TestSpansReachTheCollector(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path, want string
		status     int
	}{
		"default path":  {"", "/v1/traces", http.StatusOK},
		"path of a URL": {"/otlp/spans", "/otlp/spans", http.StatusOK},
		"refused":       {"", "/v1/traces", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 8)
			collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				got <- r.URL.Path
				w.WriteHeader(test.status)
			}))
			defer collector.Close()
			var log bytes.Buffer
			tracing, err := observe.StartTracing(t.Context(), observe.TracingOptions{
				Endpoint: collector.URL + test.path, Service: "executor", Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil || !tracing.Enabled {
				t.Fatal(err)
			}
			_, span := tracing.Tracer("test").Start(t.Context(), "work")
			span.End()
			if err := tracing.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if path := <-got; path != test.want {
				t.Errorf("spans went to %s, want %s", path, test.want)
			}
			if said := strings.Contains(log.String(), "spans were not sent"); said != (test.status != http.StatusOK) {
				t.Errorf("log: %s", log.String())
			}
		})
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := observe.NewLogger(&out, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	ctx := observe.Extract(t.Context(), map[string]string{"traceparent": traceparent})
	log.With("service", "executor").InfoContext(ctx, "in a span")
	log.DebugContext(ctx, "too fine")
	log.InfoContext(t.Context(), "outside")
	var lines []map[string]any
	for line := range strings.Lines(out.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fields)
	}
	if len(lines) != 2 || lines[0]["trace_id"] != traceparent[3:35] || lines[0]["span_id"] != traceparent[36:52] || lines[0]["service"] != "executor" {
		t.Errorf("lines: %v", lines)
	}
	if _, said := lines[1]["trace_id"]; said {
		t.Error("a line outside of spans has a trace")
	}
	out.Reset()
	text, err := observe.NewLogger(&out, "warn", "text")
	if err != nil {
		t.Fatal(err)
	}
	text.WithGroup("call").WarnContext(ctx, "text")
	if !strings.Contains(out.String(), "level=WARN") || !strings.Contains(out.String(), "trace_id=") {
		t.Errorf("text: %s", out.String())
	}
	for _, bad := range [][2]string{{"loud", "json"}, {"info", "xml"}, {"", ""}} {
		if _, err := observe.NewLogger(&out, bad[0], bad[1]); !errors.Is(err, observe.ErrLog) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
