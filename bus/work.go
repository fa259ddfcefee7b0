package bus

import (
	"context"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolbus/toolbus/subjects"
)

// The bounds of a retry's delay. A negative acknowledgement without delay is
// never sent: it would burn a message's deliveries in milliseconds.
const (
	defaultRetry = time.Second
	longestRetry = 30 * time.Second
)

// work handles jobs until there are no more.
func (l *loop) work(ctx context.Context) {
	var deliveries []subjects.Delivery
	for job := range l.jobs {
		deliveries = deliveries[:0]
		for _, m := range job {
			deliveries = append(deliveries, l.delivery(m))
		}
		verdicts := l.safely(ctx, deliveries)
		for i, m := range job {
			verdict := subjects.Retry(defaultRetry)
			if i < len(verdicts) {
				verdict = verdicts[i]
			}
			l.held.remove(m)
			l.settle(m, verdict)
		}
		l.done <- len(job) // never blocks: there is room for every worker
	}
}

func (l *loop) delivery(m *nats.Msg) subjects.Delivery {
	d := subjects.Delivery{Subject: m.Subject, Data: m.Data, Header: readTrace(m.Header)}
	if meta, err := m.Metadata(); err == nil {
		d.Deliveries = int(meta.NumDelivered) //nolint:gosec // a count of deliveries
		d.Sequence = meta.Sequence.Stream
		l.stats.waiting(meta.NumPending, meta.Sequence.Consumer)
	}
	return d
}

// safely calls the handler; a panic in it loses nothing but its verdicts.
func (l *loop) safely(ctx context.Context, deliveries []subjects.Delivery) (verdicts []subjects.Verdict) {
	defer func() {
		if p := recover(); p != nil {
			verdicts = nil
			l.bus.log.ErrorContext(ctx, "handler panicked", "consumer", l.name(), "stack", string(debug.Stack()))
		}
	}()
	return l.handle(ctx, deliveries)
}

// settle tells the server what became of a message. An answer that does not
// arrive has the message delivered again, which every handler can bear.
func (l *loop) settle(m *nats.Msg, v subjects.Verdict) {
	var body []byte
	switch v.Action {
	case subjects.ActionAck:
		body = []byte("+ACK")
	case subjects.ActionPark:
		body = append([]byte("+TERM "), v.Reason...)
	case subjects.ActionRetry:
		delay := v.After
		if delay <= 0 {
			delay = defaultRetry
		}
		body = append([]byte("-NAK "), `{"delay":`...)
		body = strconv.AppendInt(body, int64(min(delay, longestRetry)), 10)
		body = append(body, '}')
	}
	if err := l.bus.conn.Publish(m.Reply, body); err != nil {
		l.bus.log.Warn("message was not settled", "consumer", l.name(), "cause", err.Error())
	}
}

// held are the messages in this process's hands, whose acknowledgement clock
// is turned back from time to time. That says nothing about who may act: leases
// are rows of the database.
type held struct {
	rate chan time.Duration

	mu       sync.Mutex
	messages map[*nats.Msg]struct{}
}

func newHeld() held {
	return held{rate: make(chan time.Duration, 1), messages: map[*nats.Msg]struct{}{}}
}

func (h *held) add(m *nats.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages[m] = struct{}{}
}

func (h *held) remove(m *nats.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.messages, m)
}

// every sets how often to extend; the last word counts.
func (h *held) every(interval time.Duration) {
	select {
	case <-h.rate:
	default:
	}
	h.rate <- max(interval, time.Millisecond)
}

// beat extends every message in hand until stop is closed.
func (h *held) beat(conn *nats.Conn, stop <-chan struct{}) {
	ticker := time.NewTicker(time.Hour) // until the durable is bound
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case interval := <-h.rate:
			ticker.Reset(interval)
		case <-ticker.C:
			for _, reply := range h.replies() {
				_ = conn.Publish(reply, []byte("+WPI")) // the next beat, or a redelivery, makes up for it
			}
		}
	}
}

func (h *held) replies() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	replies := make([]string, 0, len(h.messages))
	for m := range h.messages {
		replies = append(replies, m.Reply)
	}
	return replies
}
