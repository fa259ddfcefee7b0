package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/toolbus/toolbus/subjects"
)

// The headers that carry the trace context; no other header crosses the bus.
const (
	traceParent = "traceparent"
	traceState  = "tracestate"
)

func addTrace(to nats.Header, from map[string]string) {
	for _, key := range [...]string{traceParent, traceState} {
		if value := from[key]; value != "" {
			to[key] = []string{value}
		}
	}
}

func readTrace(from nats.Header) map[string]string {
	var trace map[string]string
	for _, key := range [...]string{traceParent, traceState} {
		if values := from[key]; len(values) > 0 {
			if trace == nil {
				trace = make(map[string]string, 2)
			}
			trace[key] = values[0]
		}
	}
	return trace
}

// Notify publishes outside any stream: whoever listens at this moment gets it,
// nobody else ever does.
func (b *Bus) Notify(subject string, data []byte) error {
	if err := b.conn.Publish(subject, data); err != nil {
		return sendError(err)
	}
	return nil
}

// backlog bounds what a subscription holds for a slow handler.
const backlog = 4096

// Subscription is a core subscription.
type Subscription struct {
	messages chan *nats.Msg
	sub      *nats.Subscription
}

// Listen subscribes to a subject and returns once the server knows of it, so
// that nothing published afterwards is missed. At most 4096 messages wait for
// [Subscription.Run]; what comes beyond is dropped and logged by the bus: ask for
// it where it is recorded.
func (b *Bus) Listen(ctx context.Context, subject string) (*Subscription, error) {
	s := &Subscription{messages: make(chan *nats.Msg, backlog)}
	sub, err := b.conn.ChanSubscribe(subject, s.messages)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	s.sub = sub
	if err := b.Flush(ctx); err != nil {
		s.Stop()
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return s, nil
}

// Run calls handle for each message, one at a time, until ctx ends.
func (s *Subscription) Run(ctx context.Context, handle func(subjects.Delivery)) {
	defer s.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-s.messages:
			handle(subjects.Delivery{Subject: m.Subject, Data: m.Data, Header: readTrace(m.Header)})
		}
	}
}

// Stop ends the subscription.
func (s *Subscription) Stop() {
	_ = s.sub.Unsubscribe() // fails only when it, or the connection, has ended
}

// Subscribe listens on a subject and calls handle for each message, one at a
// time, until ctx ends; it is [Bus.Listen] and [Subscription.Run] in one.
func (b *Bus) Subscribe(ctx context.Context, subject string, handle func(subjects.Delivery)) error {
	s, err := b.Listen(ctx, subject)
	if err != nil {
		return err
	}
	s.Run(ctx, handle)
	return nil
}
