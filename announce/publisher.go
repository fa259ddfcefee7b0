package announce

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/subjects"
)

// AsyncBus publishes without waiting.
type AsyncBus interface {
	PublishAsync(pubs []subjects.Publication, done func([]error))
}

// Outbox forgets what was published.
type Outbox interface {
	Published(ctx context.Context, done []pipeline.Announcement) error
}

// Publisher is the eager path: it publishes what this process committed, right
// after the commit, and deletes the outbox rows whose messages were all
// acknowledged. Whatever it does not manage the relay takes over, so it never
// retries and may drop when it is behind.
type Publisher struct {
	log  *slog.Logger
	wake chan struct{}

	mu      sync.Mutex
	queue   []pipeline.Announcement
	notices int
	done    []pipeline.Announcement
	outbox  Outbox
}

const (
	maximumQueued = 20_000
	deleteEvery   = 50 * time.Millisecond
	deleteRows    = 500
)

// NewPublisher makes a publisher; [Publisher.Run] makes it work.
func NewPublisher(log *slog.Logger) *Publisher {
	return &Publisher{log: log, wake: make(chan struct{}, 1)}
}

// Announce hands over what a flush owes. It never blocks and is safe for
// concurrent use. Before Run, announcements wait.
func (p *Publisher) Announce(a pipeline.Announcement) {
	p.mu.Lock()
	if p.notices < maximumQueued {
		p.queue = append(p.queue, a)
		p.notices += len(a.Notices)
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends, and then once more what is queued.
func (p *Publisher) Run(ctx context.Context, bus AsyncBus, outbox Outbox) error {
	p.outbox = outbox
	var sweeps sync.WaitGroup
	sweeps.Go(func() { p.deleteLoop(ctx) })
	defer sweeps.Wait()
	for {
		p.publish(bus)
		select {
		case <-p.wake:
		case <-ctx.Done():
			p.publish(bus)
			return nil
		}
	}
}

func (p *Publisher) publish(bus AsyncBus) {
	p.mu.Lock()
	queue := p.queue
	p.queue, p.notices = nil, 0
	p.mu.Unlock()
	if len(queue) == 0 {
		return
	}
	var pubs []subjects.Publication
	ends := make([]int, len(queue))
	for i, a := range queue {
		one, err := Compose(a)
		if err != nil {
			p.log.Error("message cannot be composed", "outbox_id", a.Outbox.String(), "cause", err.Error())
		}
		pubs = append(pubs, one...)
		ends[i] = len(pubs)
	}
	bus.PublishAsync(pubs, func(errs []error) { p.acknowledged(queue, ends, errs) })
}

// acknowledged collects the rows whose messages are all stored.
func (p *Publisher) acknowledged(queue []pipeline.Announcement, ends []int, errs []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := 0
	for i, a := range queue {
		ok := true
		for _, err := range errs[from:ends[i]] {
			ok = ok && err == nil
		}
		from = ends[i]
		if ok && !a.Outbox.IsZero() {
			p.done = append(p.done, a)
		}
	}
}

func (p *Publisher) deleteLoop(ctx context.Context) {
	tick := time.NewTicker(deleteEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.delete(ctx)
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			p.delete(ctx)
			return
		}
	}
}

func (p *Publisher) delete(ctx context.Context) {
	for {
		p.mu.Lock()
		n := min(len(p.done), deleteRows)
		batch := p.done[:n:n]
		p.done = p.done[n:]
		p.mu.Unlock()
		if n == 0 {
			return
		}
		if err := p.outbox.Published(ctx, batch); err != nil {
			return // published again by the relay, and dropped as duplicates
		}
	}
}
