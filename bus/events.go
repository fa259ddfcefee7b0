package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolbus/toolbus/subjects"
)

// ErrIncarnation says that the stream was deleted and created again: its
// sequence numbers mean something else now.
var ErrIncarnation = errors.New("stream is another one than before")

// EventStream describes the event stream as it is now.
type EventStream struct {
	// Incarnation changes when the stream is created anew. It is of the alphabet
	// of a subject token.
	Incarnation string
	// First and Last are the sequence numbers that the stream holds; Last is 0
	// while it is empty.
	First, Last uint64
}

// EventStream looks at the event stream.
func (b *Bus) EventStream(ctx context.Context) (EventStream, error) {
	stream, err := b.js.Stream(ctx, subjects.StreamEvent)
	if err != nil {
		return EventStream{}, fmt.Errorf("event stream: %w", err)
	}
	info := stream.CachedInfo()
	return EventStream{
		Incarnation: strconv.FormatInt(info.Created.UnixNano(), 36),
		First:       info.State.FirstSeq,
		Last:        info.State.LastSeq,
	}, nil
}

// EventsConfig says which events to read.
type EventsConfig struct {
	// Filter are event subjects, wildcards admitted; empty means all.
	Filter []string
	// FromSequence is the first to read; 0 means those published from now on.
	FromSequence uint64
	// Incarnation, unless empty, is the one that FromSequence belongs to.
	Incarnation string
}

// How often a reader looks whether its stream is still the same.
const incarnationCheck = 5 * time.Second

// ReadEvents calls handle for each event in stream order until ctx ends, which
// gives nil, or handle fails, which gives its error. A stream that is another
// one than at the start ends it with [ErrIncarnation]. Lost connections and
// consumers are made up for without gap or repeat.
func (b *Bus) ReadEvents(ctx context.Context, config EventsConfig, handle func(subjects.Delivery) error) error {
	stream, err := b.EventStream(ctx)
	if err != nil {
		return err
	}
	if config.Incarnation != "" && config.Incarnation != stream.Incarnation {
		return ErrIncarnation
	}
	if config.FromSequence == 0 {
		config.FromSequence = stream.Last + 1
	}
	consumer, err := b.js.OrderedConsumer(ctx, subjects.StreamEvent, jetstream.OrderedConsumerConfig{
		FilterSubjects: config.Filter,
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    config.FromSequence,
	})
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	defer messages.Stop()
	return b.readEvents(ctx, messages, stream.Incarnation, handle)
}

func (b *Bus) readEvents(ctx context.Context, messages jetstream.MessagesContext, incarnation string, handle func(subjects.Delivery) error) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, incarnationCheck)
		m, err := messages.Next(jetstream.NextContext(waiting))
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // told to stop
		case err == nil:
			if err := handle(eventDelivery(m)); err != nil {
				return err
			}
			continue
		case errors.Is(err, jetstream.ErrMsgIteratorClosed):
			return fmt.Errorf("read events: %w", err)
		}
		now, err := b.EventStream(ctx)
		if errors.Is(err, jetstream.ErrStreamNotFound) || err == nil && now.Incarnation != incarnation {
			return ErrIncarnation
		}
	}
}

func eventDelivery(m jetstream.Msg) subjects.Delivery {
	d := subjects.Delivery{Subject: m.Subject(), Data: m.Data(), Header: readTrace(m.Headers())}
	if meta, err := m.Metadata(); err == nil {
		d.Deliveries = int(meta.NumDelivered) //nolint:gosec // a count of deliveries
		d.Sequence = meta.Sequence.Stream
	}
	return d
}
