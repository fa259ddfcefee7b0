package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolbus/toolbus/subjects"
)

// ConsumerConfig says how messages of a durable are taken.
type ConsumerConfig struct {
	Stream  string
	Durable string
	// Concurrency is how many messages are handled at once, and no more than
	// that are ever asked for; 0 means 1.
	Concurrency int
	// Pause, unless nil, says that nothing can be done with a message right now,
	// such as when the database is away: nothing is pulled while it is true.
	Pause func() bool
	// DrainTimeout is how long handlers may go on after the context has ended,
	// before theirs ends too; 0 means 30 s.
	DrainTimeout time.Duration
}

// Consume calls handle for each message of a durable until ctx ends, then stops
// pulling, waits for the handlers and returns nil; it returns an error only for
// a configuration that can never work. While a handler holds a message the
// server hears of it every third of the acknowledgement wait. A handler that
// panics has its message retried. When the durable or its stream is gone, or
// the connection, Consume binds again with growing pauses.
func (b *Bus) Consume(ctx context.Context, config ConsumerConfig, handle func(context.Context, subjects.Delivery) subjects.Verdict) error {
	config.Concurrency = max(config.Concurrency, 1)
	verdict := func(ctx context.Context, d []subjects.Delivery) []subjects.Verdict {
		return []subjects.Verdict{handle(ctx, d[0])}
	}
	return b.consume(ctx, loopConfig{
		ConsumerConfig: config,
		workers:        config.Concurrency,
		perJob:         1,
		slots:          func() int { return config.Concurrency },
	}, verdict)
}

// BatchConfig says how messages of a durable are taken in batches.
type BatchConfig struct {
	Stream  string
	Durable string
	// Slots gives how many slots are free. Messages that are asked for, buffered
	// or in the handler are taken off by the bus; what the handler has filled must
	// be taken off by Slots before it returns. It is called often and must be
	// quick. When it shrinks, what has come already is kept alive and handed over
	// when there is room again.
	Slots func() int
	// Wake, unless nil, tells that Slots may have grown; without it a change is
	// seen within MaxWait.
	Wake <-chan struct{}
	// MaxBatch bounds a batch; 0 means 200.
	MaxBatch int
	// MaxWait bounds how long a change of Slots or Pause goes unnoticed; 0 means
	// 100 ms. A message never waits for it.
	MaxWait time.Duration
	// Pause and DrainTimeout are those of [ConsumerConfig].
	Pause        func() bool
	DrainTimeout time.Duration
}

// ConsumeBatch is [Bus.Consume] for a handler that takes many messages at once:
// it gets whatever has arrived, at most Slots, one batch at a time, and returns
// one verdict per message in the same order; a missing verdict is a retry. The
// slice belongs to the bus again when the handler returns.
func (b *Bus) ConsumeBatch(ctx context.Context, config BatchConfig, handle func(context.Context, []subjects.Delivery) []subjects.Verdict) error {
	if config.Slots == nil {
		return errors.New("consume: no slots")
	}
	if config.MaxBatch <= 0 {
		config.MaxBatch = 200
	}
	return b.consume(ctx, loopConfig{
		ConsumerConfig: ConsumerConfig{
			Stream: config.Stream, Durable: config.Durable, Concurrency: config.MaxBatch,
			Pause: config.Pause, DrainTimeout: config.DrainTimeout,
		},
		workers: 1,
		perJob:  config.MaxBatch,
		slots:   config.Slots,
		wake:    config.Wake,
		tick:    config.MaxWait,
	}, handle)
}

func (b *Bus) consume(ctx context.Context, config loopConfig, handle handler) error {
	if config.Stream == "" || config.Durable == "" {
		return errors.New("consume: no stream or durable")
	}
	if config.DrainTimeout <= 0 {
		config.DrainTimeout = 30 * time.Second
	}
	if config.tick <= 0 {
		config.tick = 100 * time.Millisecond
	}
	if config.Pause == nil {
		config.Pause = func() bool { return false }
	}
	l := newLoop(b, config, handle)
	if err := b.consumers.add(l); err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	defer b.consumers.remove(l)
	l.run(ctx)
	return nil
}
