package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolbus/toolbus/announce"
	"github.com/toolbus/toolbus/internal/observe"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/services/telemetry"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stream is an event stream in memory.
type stream struct {
	mu          sync.Mutex
	incarnation string
	first       uint64
	messages    []subjects.Delivery
	changed     chan struct{}
	// stalled makes readers receive nothing, away makes every look fail.
	stalled, away bool
	// reads remembers where each reading began.
	reads []uint64
	// beforeRead, unless nil, happens at the beginning of a reading.
	beforeRead func()
}

func newStream() *stream { return &stream{incarnation: "one", first: 1, changed: make(chan struct{})} }

func (s *stream) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// publish stores messages.
func (s *stream) publish(ds ...subjects.Delivery) {
	s.update(func() {
		for _, d := range ds {
			d.Sequence = s.first + uint64(len(s.messages))
			s.messages = append(s.messages, d)
		}
	})
}

// recreate gives the stream a new life, without messages.
func (s *stream) recreate(incarnation string) {
	s.update(func() { s.incarnation, s.first, s.messages = incarnation, 1, nil })
}

// expire throws the first messages away.
func (s *stream) expire(n int) {
	s.update(func() { s.first, s.messages = s.first+uint64(n), s.messages[n:] })
}

func (s *stream) stall(stalled bool) { s.update(func() { s.stalled = stalled }) }

func (s *stream) readings() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]uint64(nil), s.reads...)
}

var errAway = errors.New("away")

// EventStream describes the stream.
func (s *stream) EventStream(context.Context) (telemetry.EventStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return telemetry.EventStream{}, errAway
	}
	return telemetry.EventStream{Incarnation: s.incarnation, First: s.first, Last: s.first + uint64(len(s.messages)) - 1}, nil
}

// ReadEvents reads the stream.
func (s *stream) ReadEvents(ctx context.Context, incarnation string, from uint64, handle func(subjects.Delivery) error) error {
	s.mu.Lock()
	s.reads = append(s.reads, from)
	before := s.beforeRead
	s.mu.Unlock()
	if before != nil {
		before()
	}
	for {
		s.mu.Lock()
		if s.incarnation != incarnation {
			s.mu.Unlock()
			return errors.New("another stream")
		}
		from = max(from, s.first)
		var d *subjects.Delivery
		if i := from - s.first; !s.stalled && i < uint64(len(s.messages)) {
			d = &s.messages[i]
		}
		changed := s.changed
		s.mu.Unlock()
		if d != nil {
			if err := handle(*d); err != nil {
				return err
			}
			from++
			if ctx.Err() != nil {
				return nil
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// tables are tables in memory.
type tables struct {
	mu    sync.Mutex
	calls map[tool.ID]*call
	// broken makes every read fail.
	broken bool
	fills  int
}

func newTables() *tables { return &tables{calls: map[tool.ID]*call{}} }

func (t *tables) breakDown(broken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = broken
}

func (t *tables) fillsSoFar() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fills
}

// EventNotices reads events of a call.
func (t *tables) EventNotices(ctx context.Context, tenant string, id tool.ID, from, to int) ([]pipeline.Notice, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fills++
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if t.broken {
		return nil, errAway
	}
	c, ok := t.calls[id]
	if !ok || c.row.TenantID != tenant {
		return nil, fmt.Errorf("invocation: %w", pipeline.ErrNotFound)
	}
	var out []pipeline.Notice
	for seq := from; seq < to && seq <= len(c.records); seq++ {
		out = append(out, c.notice(seq))
	}
	return out, nil
}

// Oldest says how old open calls are.
func (t *tables) Oldest(context.Context) (map[tool.Status]time.Duration, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken {
		return nil, errAway
	}
	return map[tool.Status]time.Duration{tool.Running: 90 * time.Second}, nil
}

// OutboxAge says how old the outbox is.
func (t *tables) OutboxAge(context.Context) (time.Duration, int64, error) {
	return 3 * time.Second, 4, nil
}

// PendingApprovals says what waits for a person.
func (t *tables) PendingApprovals(context.Context) (int64, time.Duration, error) {
	return 2, time.Minute, nil
}

// DeadLetters counts dead letters.
func (t *tables) DeadLetters(context.Context) (int64, error) { return 5, nil }

// call is a call with its whole history.
type call struct {
	row     pipeline.Invocation
	records []pipeline.EventRecord
}

// newCall makes a call whose events are the given names; a terminal one carries
// the outcome.
func (t *tables) newCall(tenant string, end pipeline.Settlement, names ...string) *call {
	now := time.Now()
	c := &call{row: pipeline.Invocation{
		TenantID: tenant, ID: tool.NewID(), RunID: tool.NewID(), CallID: "call_1", ToolName: "workspace.write_text", ToolVersion: "1",
		Source: tool.Builtin, Class: tool.Idempotent, StartedAt: now, Settlement: end,
	}}
	for i, name := range names {
		r := pipeline.EventRecord{Name: name, At: now.Add(time.Duration(i+1) * time.Second)}
		switch name {
		case pipeline.EventCompleted, pipeline.EventDenied, pipeline.EventFailed, pipeline.EventUncertain:
			r.Outcome, r.Reason = end.Outcome, end.Reason
		}
		c.records = append(c.records, r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[c.row.ID] = c
	return c
}

func (c *call) notice(seq int) pipeline.Notice {
	return pipeline.Notice{Kind: pipeline.NoticeEvent, Ref: c.row.ID, Seq: seq, Call: &c.row, Event: c.records[seq-1]}
}

// message is the event as it travels.
func (c *call) message(t testing.TB, seq int) subjects.Delivery {
	t.Helper()
	pubs, err := announce.Compose(pipeline.Announcement{Tenant: c.row.TenantID, Notices: []pipeline.Notice{c.notice(seq)}})
	if err != nil || len(pubs) != 1 {
		t.Fatalf("compose: %d messages, %v", len(pubs), err)
	}
	return subjects.Delivery{Subject: pubs[0].Subject, Data: pubs[0].Data}
}

// body is the text of the event.
func (c *call) body(t testing.TB, seq int) string {
	t.Helper()
	return string(c.message(t, seq).Data)
}

// other is an event of no call.
func other(t testing.TB, tenant, name string) subjects.Delivery {
	t.Helper()
	subject, err := subjects.EventFor(tenant, tool.ID{}, name)
	if err != nil {
		t.Fatal(err)
	}
	e := subjects.Event{EventID: tool.NewID().String(), Event: name, OccurredAt: time.Now().UTC(), TenantID: tenant, Data: map[string]any{"server": "acme"}}
	data, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return subjects.Delivery{Subject: subject, Data: data}
}

// lifetime are the events of a call that succeeds.
func lifetime() []string {
	return []string{pipeline.EventProposed, pipeline.EventAuthorized, pipeline.EventStarted, pipeline.EventCompleted}
}

func succeeded() pipeline.Settlement {
	return pipeline.Settlement{Outcome: tool.OutcomeSucceeded, OutputBytes: 29}
}

// world is a service with what it reads.
type world struct {
	*telemetry.Service
	stream  *stream
	tables  *tables
	metrics *observe.Metrics
	checks  *observe.Checks
}

const (
	acmeToken = "acme-viewer-token"
	allToken  = "every-tenant-token"
)

func newWorld(t testing.TB, change func(*telemetry.Options)) *world {
	t.Helper()
	w := &world{stream: newStream(), tables: newTables(), metrics: observe.NewMetrics(observe.Build{}), checks: observe.NewChecks(nil)}
	o := telemetry.Options{
		Address: "127.0.0.1:0", Events: w.stream, Tables: w.tables, Metrics: w.metrics, Checks: w.checks,
		Tokens: []telemetry.Token{
			{Name: "ann", Value: tool.NewSecret(acmeToken), Role: telemetry.Viewer, Tenants: []string{"acme"}},
			{Name: "root", Value: tool.NewSecret(allToken), Role: telemetry.Admin, Tenants: []string{"*"}},
		},
	}
	if change != nil {
		change(&o)
	}
	s, err := telemetry.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Service = s
	return w
}
