package observe

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// How many values a label may have; what is beyond counts as [UnknownName].
const (
	maximumTools   = 1024
	maximumServers = 256
	maximumCodes   = 256
)

// Build says what is running.
type Build struct {
	Version  string
	Revision string
}

// Metrics are the metrics of the process: those of the specification ("Spans
// and metrics"), under its names, and what an operator needs besides, under
// toolbus_. None has a label for the tenant. Every method is safe for concurrent
// use.
type Metrics struct {
	registry *prometheus.Registry
	tools    *labelSet
	sources  *labelSet
	servers  *labelSet
	methods  *labelSet
	codes    *labelSet

	calls           *prometheus.CounterVec
	failures        *prometheus.CounterVec
	duration        *prometheus.HistogramVec
	outputBytes     *prometheus.HistogramVec
	truncations     *prometheus.CounterVec
	uncertain       *prometheus.CounterVec
	mcpRequests     *prometheus.CounterVec
	connectFailures *prometheus.CounterVec

	ended    *prometheus.CounterVec
	admitted prometheus.Counter
	refusals *prometheus.CounterVec
	expired  prometheus.Counter
	stream   streamMetrics
	backlog  backlogMetrics
}

// NewMetrics makes the metrics of a process.
func NewMetrics(b Build) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		tools:    newLabelSet(maximumTools), sources: newLabelSet(maximumCodes), servers: newLabelSet(maximumServers),
		methods: newLabelSet(maximumCodes), codes: newLabelSet(maximumCodes),
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.addSpecified()
	m.addOperational(b)
	m.stream = newStreamMetrics(m)
	m.backlog = newBacklogMetrics(m)
	return m
}

// Handler serves the metrics in the formats of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Timeout: 10 * time.Second, MaxRequestsInFlight: 8})
}

// tool gives the labels that every metric about a tool begins with.
func toolLabels(more ...string) []string {
	return append([]string{"tool_name", "tool_source"}, more...)
}

func (m *Metrics) addSpecified() {
	m.calls = m.counters("tool_calls_total", "Calls that ended, by outcome.", toolLabels("outcome_status")...)
	m.failures = m.counters("tool_failures_total", "Calls that failed or were unavailable, by reason.", toolLabels("reason_code")...)
	m.truncations = m.counters("tool_truncations_total", "Results that were admitted as an excerpt.", toolLabels()...)
	m.uncertain = m.counters("tool_uncertain_total", "Calls of which nobody knows whether they had their effect; each is a human review.", toolLabels()...)
	m.mcpRequests = m.counters("mcp_requests_total", "Requests to MCP servers.", "server", "method", "outcome")
	m.connectFailures = m.counters("mcp_connect_failures_total", "Failed attempts to connect to an MCP server.", "server", "reason_code")
	m.duration = m.histograms("tool_duration_seconds", "Time from the claim of a call to its end.",
		[]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300})
	m.outputBytes = m.histograms("tool_output_bytes", "Size of results before excerpt and envelope.",
		[]float64{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20})
}

func (m *Metrics) addOperational(b Build) {
	m.ended = m.counters("toolbus_calls_ended_total", "Calls by how they ended; no call is in two.", "end")
	m.admitted = m.counters("toolbus_proposals_total", "Proposals that were admitted whole.").WithLabelValues()
	m.refusals = m.counters("toolbus_refusals_total", "Refusals, by code.", "reason_code")
	m.expired = m.counters("toolbus_approvals_expired_total", "Approvals that expired undecided.").WithLabelValues()
	m.gauges("toolbus_build_info", "Always 1; the labels say what is running.", "version", "revision", "go_version").
		WithLabelValues(b.Version, b.Revision, runtime.Version()).Set(1)
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) histograms(name, help string, buckets []float64) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, toolLabels())
	m.registry.MustRegister(v)
	return v
}

// CallEnd is a call that has ended.
type CallEnd struct {
	// Tool is the registry name, or [UnknownName] when it is in no pin.
	Tool   string
	Source string
	// Outcome is one of the five outcome statuses.
	Outcome string
	// End is how it ended, told apart further than the outcome does.
	End    string
	Reason string
	// Failed says that the reason counts as a failure.
	Failed bool
	// Uncertain says that a person has to look at it.
	Uncertain bool
	// Ran says that the call was claimed; without it Duration and OutputBytes mean
	// nothing.
	Ran         bool
	Duration    time.Duration
	OutputBytes int64
	Truncated   bool
}

// CallSeen makes the series of a tool that are alerted on begin at zero: a
// counter that appears with its first increment hides that increment.
func (m *Metrics) CallSeen(tool, source string) {
	tool, source = m.tools.admit(tool), m.sources.admit(source)
	m.uncertain.WithLabelValues(tool, source)
	m.truncations.WithLabelValues(tool, source)
}

// CallEnded counts the end of a call, once.
func (m *Metrics) CallEnded(e CallEnd) {
	tool, source := m.tools.admit(e.Tool), m.sources.admit(e.Source)
	m.calls.WithLabelValues(tool, source, m.codes.admit(e.Outcome)).Inc()
	m.ended.WithLabelValues(m.codes.admit(e.End)).Inc()
	if e.Failed {
		m.failures.WithLabelValues(tool, source, m.codes.admit(e.Reason)).Inc()
	}
	if e.Uncertain {
		m.uncertain.WithLabelValues(tool, source).Inc()
	}
	if e.Truncated {
		m.truncations.WithLabelValues(tool, source).Inc()
	}
	if e.Ran {
		m.duration.WithLabelValues(tool, source).Observe(e.Duration.Seconds())
		m.outputBytes.WithLabelValues(tool, source).Observe(float64(e.OutputBytes))
	}
}

// Ends makes the series of the given ends begin at zero.
func (m *Metrics) Ends(ends ...string) {
	for _, end := range ends {
		m.ended.WithLabelValues(m.codes.admit(end))
	}
}

// MCPRequest counts one request to an MCP server; outcome is a short word of
// ours, never text of the server.
func (m *Metrics) MCPRequest(server, method, outcome string) {
	m.mcpRequests.WithLabelValues(m.servers.admit(server), m.methods.admit(method), m.codes.admit(outcome)).Inc()
}

// MCPConnectFailure counts a failed attempt to connect to an MCP server.
func (m *Metrics) MCPConnectFailure(server, reason string) {
	m.connectFailures.WithLabelValues(m.servers.admit(server), m.codes.admit(reason)).Inc()
}

// Proposal counts a proposal that was admitted whole, for an empty code, or a
// refusal.
func (m *Metrics) Proposal(refusal string) {
	if refusal == "" {
		m.admitted.Inc()
		return
	}
	m.refusals.WithLabelValues(m.codes.admit(refusal)).Inc()
}

// ApprovalExpired counts an approval that nobody decided in time.
func (m *Metrics) ApprovalExpired() { m.expired.Inc() }

// sinceNanos is the age of a moment kept as unix nanoseconds; 0 for none.
func sinceNanos(at *atomic.Int64) float64 {
	n := at.Load()
	if n == 0 {
		return 0
	}
	return time.Since(time.Unix(0, n)).Seconds()
}
