package telemetry_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolbus/toolbus/internal/observe"
	"github.com/toolbus/toolbus/services/telemetry"
	"github.com/toolbus/toolbus/tool"
)

var zeroSecret tool.Secret

func twoTokens() []telemetry.Token {
	return []telemetry.Token{
		{Name: "a", Value: tool.NewSecret("a"), Role: telemetry.Viewer, Tenants: []string{"acme"}},
		{Name: "b", Value: tool.NewSecret("b"), Role: telemetry.Approver, Tenants: []string{"*"}},
	}
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// scrape reads the metrics: series to value.
func scrape(t *testing.T, m *observe.Metrics) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	out := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		out[series] = number
	}
	return out
}

// elapse lets the time of a synctest bubble pass.
func elapse(d time.Duration) { <-time.NewTimer(d).C }
