package observe

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// streamMetrics are about reading the event stream and handing it on.
type streamMetrics struct {
	read, invalid prometheus.Counter
	gaps          *prometheus.CounterVec
	clients       prometheus.Gauge
	dropped       prometheus.Counter
}

func newStreamMetrics(m *Metrics) streamMetrics {
	s := streamMetrics{
		read:    m.counters("toolbus_events_read_total", "Messages read from the event stream.").WithLabelValues(),
		invalid: m.counters("toolbus_events_invalid_total", "Messages of the event stream that are no events.").WithLabelValues(),
		gaps:    m.counters("toolbus_event_gaps_total", "Events that were not in the stream when their successor was, by whether the table had them.", "result"),
		clients: m.gauges("toolbus_event_clients", "Clients that follow the event stream over HTTP.").WithLabelValues(),
		dropped: m.counters("toolbus_event_clients_dropped_total", "Clients that were disconnected because they could not keep up.").WithLabelValues(),
	}
	s.gaps.WithLabelValues("filled")
	s.gaps.WithLabelValues("missing")
	return s
}

// EventRead counts a message read from the event stream.
func (m *Metrics) EventRead() { m.stream.read.Inc() }

// EventInvalid counts a message of the event stream that is no event.
func (m *Metrics) EventInvalid() { m.stream.invalid.Inc() }

// EventsFilled counts events that were read from the table because the stream
// did not have them yet.
func (m *Metrics) EventsFilled(n int) { m.stream.gaps.WithLabelValues("filled").Add(float64(n)) }

// EventsMissing counts events that neither stream nor table had when their
// successor came.
func (m *Metrics) EventsMissing(n int) { m.stream.gaps.WithLabelValues("missing").Add(float64(n)) }

// ClientJoined counts a client that follows the events; the result takes it off
// again and is called once.
func (m *Metrics) ClientJoined() (left func()) {
	m.stream.clients.Inc()
	return m.stream.clients.Dec
}

// ClientDropped counts a client that could not keep up.
func (m *Metrics) ClientDropped() { m.stream.dropped.Inc() }

// Backlog is what the tables say about work that is not done.
type Backlog struct {
	// OldestOpen is the age of the oldest open call by status; a status without
	// open calls has zero.
	OldestOpen map[string]time.Duration
	// OutboxOldest and OutboxEntries are about what is committed and unpublished.
	OutboxOldest  time.Duration
	OutboxEntries int64
	// PendingApprovals and OldestApproval are about calls that wait for a person.
	PendingApprovals int64
	OldestApproval   time.Duration
	DeadLetters      int64
}

// backlogMetrics show the last [Backlog].
type backlogMetrics struct {
	open                     *prometheus.GaugeVec
	outboxOldest, outbox     prometheus.Gauge
	approvals, approvalsAged prometheus.Gauge
	deadLetters              prometheus.Gauge
	at                       *atomic.Int64
}

func newBacklogMetrics(m *Metrics) backlogMetrics {
	b := backlogMetrics{
		open:          m.gauges("toolbus_open_calls_oldest_seconds", "Age of the oldest open call in each status.", "status"),
		outboxOldest:  m.gauges("toolbus_outbox_oldest_seconds", "Age of the oldest message that is committed and not published.").WithLabelValues(),
		outbox:        m.gauges("toolbus_outbox_entries", "Outbox entries that are not published.").WithLabelValues(),
		approvals:     m.gauges("toolbus_approvals_pending", "Calls that wait for a person's decision.").WithLabelValues(),
		approvalsAged: m.gauges("toolbus_approvals_oldest_seconds", "Age of the oldest approval that waits for a decision.").WithLabelValues(),
		deadLetters:   m.gauges("toolbus_dead_letters", "Messages kept because they could not be handled.").WithLabelValues(),
		at:            new(atomic.Int64),
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "toolbus_backlog_age_seconds", Help: "Time since the gauges about the tables were read; 0 before the first time.",
	}, func() float64 { return sinceNanos(b.at) }))
	return b
}

// SetBacklog shows what the tables said just now.
func (m *Metrics) SetBacklog(b Backlog) {
	g := &m.backlog
	for status, age := range b.OldestOpen {
		g.open.WithLabelValues(m.codes.admit(status)).Set(age.Seconds())
	}
	g.outboxOldest.Set(b.OutboxOldest.Seconds())
	g.outbox.Set(float64(b.OutboxEntries))
	g.approvals.Set(float64(b.PendingApprovals))
	g.approvalsAged.Set(b.OldestApproval.Seconds())
	g.deadLetters.Set(float64(b.DeadLetters))
	g.at.Store(time.Now().UnixNano())
}

// Lane counts the operations of a database lane and the flushes they shared.
type Lane struct {
	Operations int64
	Flushes    int64
}

// Consumer tells how far a consumer of a stream is.
type Consumer struct {
	Name string
	// Pending is how many messages wait, as far as is known.
	Pending int64
	// LastFetch is when the last message came; zero when none did.
	LastFetch time.Time
}

// Process gives what only the process itself knows, asked at each scrape. Nil
// members are left out. The functions must be quick and safe for concurrent use.
type Process struct {
	Lanes      func() map[string]Lane
	Consumers  func() []Consumer
	LastClaim  func() time.Time
	Reconnects func() int64
}

// Watch shows what a process says about itself. It is called once; a second
// call is an error.
func (m *Metrics) Watch(p Process) error {
	return m.registry.Register(&processCollector{p: p}) //nolint:wrapcheck // it says which metric is there already
}

// processCollector reads a [Process] at each scrape.
type processCollector struct{ p Process }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func operationsDesc() *prometheus.Desc {
	return describe("toolbus_lane_operations_total", "Operations handed to a lane of group commits.", "lane")
}

func flushesDesc() *prometheus.Desc {
	return describe("toolbus_lane_flushes_total", "Transactions in which a lane committed them.", "lane")
}

func pendingDesc() *prometheus.Desc {
	return describe("toolbus_consumer_pending", "Messages that wait for a consumer, as the server last said.", "consumer")
}

func fetchDesc() *prometheus.Desc {
	return describe("toolbus_last_fetch_age_seconds", "Time since a consumer last received a message.", "consumer")
}

func claimDesc() *prometheus.Desc {
	return describe("toolbus_last_claim_age_seconds", "Time since a claim was last answered.")
}

func reconnectsDesc() *prometheus.Desc {
	return describe("toolbus_nats_reconnects_total", "Times the connection to NATS was made again.")
}

// Describe names what the collector gives.
func (c *processCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{operationsDesc(), flushesDesc(), pendingDesc(), fetchDesc(), claimDesc(), reconnectsDesc()} {
		to <- d
	}
}

// Collect asks the process.
func (c *processCollector) Collect(to chan<- prometheus.Metric) {
	give := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, value, labels...) //nolint:promlinter // the linter cannot read a descriptor in a variable
	}
	if c.p.Lanes != nil {
		for name, lane := range c.p.Lanes() {
			give(operationsDesc(), prometheus.CounterValue, float64(lane.Operations), name)
			give(flushesDesc(), prometheus.CounterValue, float64(lane.Flushes), name)
		}
	}
	if c.p.Consumers != nil {
		for _, consumer := range c.p.Consumers() {
			give(pendingDesc(), prometheus.GaugeValue, float64(consumer.Pending), consumer.Name)
			if !consumer.LastFetch.IsZero() {
				give(fetchDesc(), prometheus.GaugeValue, time.Since(consumer.LastFetch).Seconds(), consumer.Name)
			}
		}
	}
	if c.p.LastClaim != nil {
		if at := c.p.LastClaim(); !at.IsZero() {
			give(claimDesc(), prometheus.GaugeValue, time.Since(at).Seconds())
		}
	}
	if c.p.Reconnects != nil {
		give(reconnectsDesc(), prometheus.CounterValue, float64(c.p.Reconnects()))
	}
}
