package observe_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/toolbus/toolbus/internal/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// touched makes metrics in which every family has a series.
func touched(t *testing.T) *observe.Metrics {
	t.Helper()
	m := observe.NewMetrics(observe.Build{Version: "1.2.3", Revision: "abc"})
	m.CallSeen("workspace.write_text", "builtin")
	m.CallEnded(observe.CallEnd{
		Tool: "workspace.write_text", Source: "builtin", Outcome: "failed", End: "failed", Reason: "tool.timeout",
		Failed: true, Uncertain: true, Ran: true, Duration: 2 * time.Second, OutputBytes: 100, Truncated: true,
	})
	m.MCPRequest("acme", "tools/call", "ok")
	m.MCPConnectFailure("acme", "tool.auth_failed")
	m.Proposal("")
	m.Proposal("malformed")
	m.ApprovalExpired()
	m.EventRead()
	m.EventInvalid()
	m.EventsFilled(2)
	m.EventsMissing(1)
	m.ClientJoined()
	m.ClientDropped()
	m.SetBacklog(observe.Backlog{OldestOpen: map[string]time.Duration{"running": time.Minute}})
	err := m.Watch(observe.Process{
		Lanes: func() map[string]observe.Lane { return map[string]observe.Lane{"claim": {Operations: 10, Flushes: 3}} },
		Consumers: func() []observe.Consumer {
			return []observe.Consumer{{Name: "executor", Pending: 4, LastFetch: time.Now()}}
		},
		LastClaim:  func() time.Time { return time.Now().Add(-time.Minute) },
		Reconnects: func() int64 { return 2 },
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func families(t *testing.T, m *observe.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range all {
		out[f.GetName()] = f
	}
	return out
}

// The names, types and labels of the specification ("Spans and metrics"), and
// no other metric outside of toolbus_ and what the libraries say of the process.
func TestMetricsOfTheSpecification(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"tool_calls_total":           "counter outcome_status tool_name tool_source",
		"tool_failures_total":        "counter reason_code tool_name tool_source",
		"tool_duration_seconds":      "histogram tool_name tool_source",
		"tool_output_bytes":          "histogram tool_name tool_source",
		"tool_truncations_total":     "counter tool_name tool_source",
		"tool_uncertain_total":       "counter tool_name tool_source",
		"mcp_requests_total":         "counter method outcome server",
		"mcp_connect_failures_total": "counter reason_code server",
	}
	got := map[string]string{}
	for name, f := range families(t, touched(t)) {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "toolbus_") {
			continue
		}
		got[name] = shape(f)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func shape(f *dto.MetricFamily) string {
	words := []string{strings.ToLower(f.GetType().String())}
	for _, label := range f.GetMetric()[0].GetLabel() {
		words = append(words, label.GetName())
	}
	return strings.Join(words, " ")
}

func TestOperationalMetrics(t *testing.T) {
	t.Parallel()
	want := []string{
		"toolbus_approvals_expired_total counter", "toolbus_approvals_oldest_seconds gauge", "toolbus_approvals_pending gauge",
		"toolbus_backlog_age_seconds gauge", "toolbus_build_info gauge go_version revision version", "toolbus_calls_ended_total counter end",
		"toolbus_consumer_pending gauge consumer", "toolbus_dead_letters gauge", "toolbus_event_clients gauge",
		"toolbus_event_clients_dropped_total counter", "toolbus_event_gaps_total counter result", "toolbus_events_invalid_total counter",
		"toolbus_events_read_total counter", "toolbus_lane_flushes_total counter lane", "toolbus_lane_operations_total counter lane",
		"toolbus_last_claim_age_seconds gauge", "toolbus_last_fetch_age_seconds gauge consumer", "toolbus_nats_reconnects_total counter",
		"toolbus_open_calls_oldest_seconds gauge status", "toolbus_outbox_entries gauge", "toolbus_outbox_oldest_seconds gauge",
		"toolbus_proposals_total counter", "toolbus_refusals_total counter reason_code",
	}
	all := families(t, touched(t))
	var got []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, "toolbus_") {
			got = append(got, name+" "+shape(all[name]))
		}
		for _, metric := range all[name].GetMetric() {
			for _, label := range metric.GetLabel() {
				if strings.Contains(label.GetName(), "tenant") {
					t.Errorf("%s has a label for the tenant", name)
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	m := observe.NewMetrics(observe.Build{})
	for i := range observe.MaximumTools + 500 {
		m.CallEnded(observe.CallEnd{Tool: fmt.Sprintf("mcp.acme.tool_%d", i), Source: "mcp", Outcome: "succeeded", End: "succeeded"})
	}
	m.CallEnded(observe.CallEnd{Tool: "bad\xff", Source: "mcp", Outcome: "succeeded", End: "succeeded"})
	m.CallEnded(observe.CallEnd{Tool: strings.Repeat("a", 200), Source: "mcp", Outcome: "succeeded", End: "succeeded"})
	m.CallEnded(observe.CallEnd{Tool: "mcp.acme.tool_0", Source: "mcp", Outcome: "succeeded", End: "succeeded"})
	calls := families(t, m)["tool_calls_total"].GetMetric()
	if len(calls) != observe.MaximumTools+1 {
		t.Errorf("%d series, want %d and one for the rest", len(calls), observe.MaximumTools)
	}
	for _, metric := range calls {
		for _, label := range metric.GetLabel() {
			switch value := metric.GetCounter().GetValue(); {
			case label.GetValue() == observe.UnknownName && value != 502:
				t.Errorf("%v calls of the rest, want 502", value)
			case label.GetValue() == "mcp.acme.tool_0" && value != 2:
				t.Errorf("%v calls of a known name, want 2", value)
			}
		}
	}
}

func TestSeriesThatAreAlertedOnBeginAtZero(t *testing.T) {
	t.Parallel()
	m := observe.NewMetrics(observe.Build{})
	m.CallSeen("demo.write", "builtin")
	m.Ends("cancelled")
	all := families(t, m)
	for _, name := range []string{"tool_uncertain_total", "tool_truncations_total", "toolbus_calls_ended_total"} {
		f := all[name]
		if f == nil || len(f.GetMetric()) != 1 || f.GetMetric()[0].GetCounter().GetValue() != 0 {
			t.Errorf("%s: %v, want one series at zero", name, f)
		}
	}
}

func TestWatchIsOnceAndMayBeEmpty(t *testing.T) {
	t.Parallel()
	m := observe.NewMetrics(observe.Build{})
	if err := m.Watch(observe.Process{}); err != nil {
		t.Fatal(err)
	}
	families(t, m)
	if err := m.Watch(observe.Process{}); err == nil {
		t.Error("a second process is watched under the same names")
	}
}
