package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolbus/toolbus/subjects"
)

type handler func(context.Context, []subjects.Delivery) []subjects.Verdict

type loopConfig struct {
	ConsumerConfig

	workers int
	perJob  int
	slots   func() int // messages that may be in hand, on the way and buffered together
	wake    <-chan struct{}
	tick    time.Duration
}

// loop moves messages from a durable to its workers. All of its plain fields
// belong to the goroutine of run.
type loop struct {
	bus    *Bus
	config loopConfig
	handle handler

	jobs   chan []*nats.Msg
	done   chan int // how many messages a worker has finished with
	buffer []*nats.Msg
	inHand int
	idle   int

	held  held
	stats loopStats
}

// loopStats are what others may read of a loop.
type loopStats struct {
	bound    atomic.Bool
	paused   atomic.Bool
	fetched  atomic.Int64 // unix nanoseconds of the last message
	messages atomic.Int64
	rebinds  atomic.Int64

	mu sync.Mutex
	// pending is what the server said with delivery number asOf, the latest:
	// workers look at theirs in any order.
	pending int64
	asOf    uint64
}

func (s *loopStats) waiting(pending, asOf uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if asOf == 0 || asOf >= s.asOf {
		s.pending, s.asOf = int64(pending), asOf //nolint:gosec // a count of messages
	}
}

func (s *loopStats) pendingNow() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}

func newLoop(b *Bus, config loopConfig, handle handler) *loop {
	return &loop{
		bus:    b,
		config: config,
		handle: handle,
		jobs:   make(chan []*nats.Msg, config.workers),
		done:   make(chan int, config.workers),
		idle:   config.workers,
		held:   newHeld(),
	}
}

func (l *loop) name() string { return l.config.Stream + "/" + l.config.Durable }

// run consumes until ctx ends and every worker has returned.
func (l *loop) run(ctx context.Context) {
	handling, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var workers sync.WaitGroup
	for range l.config.workers {
		workers.Go(func() { l.work(handling) })
	}
	beating := make(chan struct{})
	var beat sync.WaitGroup
	beat.Go(func() { l.held.beat(l.bus.conn, beating) })

	l.supervise(ctx)

	close(l.jobs)
	limit := time.AfterFunc(l.config.DrainTimeout, stop)
	workers.Wait()
	limit.Stop()
	close(beating)
	beat.Wait()
}

// supervise runs session after session, with growing pauses while they fail.
func (l *loop) supervise(ctx context.Context) {
	const shortest, longest = 50 * time.Millisecond, 5 * time.Second
	pause := shortest
	for ctx.Err() == nil {
		before := l.stats.messages.Load()
		err := l.session(ctx)
		l.stats.bound.Store(false)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errPaused) {
			continue
		}
		l.stats.rebinds.Add(1)
		l.bus.log.WarnContext(ctx, "consumer binds again", "consumer", l.name(), "cause", err.Error())
		if l.stats.messages.Load() > before || errors.Is(err, errRestarted) {
			pause = shortest
		}
		l.sleep(ctx, pause/2+rand.N(pause))
		pause = min(2*pause, longest)
	}
}

// sleep waits for d, but no longer than ctx lasts or the connection stays as it is.
func (l *loop) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.bus.watch():
	case <-ctx.Done():
	}
}

var errPaused = errors.New("paused")

// session binds and consumes until something ends it.
func (l *loop) session(ctx context.Context) error {
	if l.config.Pause() {
		l.stats.paused.Store(true)
		l.sleep(ctx, l.config.tick)
		return errPaused
	}
	l.stats.paused.Store(false)
	changed := l.bus.watch()
	consumer, err := l.bus.js.Consumer(ctx, l.config.Stream, l.config.Durable)
	if err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	info := consumer.CachedInfo()
	l.held.every(info.Config.AckWait / 3)
	l.stats.waiting(info.NumPending, 0)
	p, err := openPuller(l.bus.conn, l.config.Stream, l.config.Durable, max(l.config.Concurrency, l.config.slots()))
	if err != nil {
		return err
	}
	l.stats.bound.Store(true)
	err = l.pump(ctx, p, changed)
	p.close()
	l.giveBack(p)
	return err
}

// pump is the loop itself: ask for as much as there is room for, take what
// comes, hand it over.
func (l *loop) pump(ctx context.Context, p *puller, changed <-chan struct{}) error {
	ticker := time.NewTicker(l.config.tick)
	defer ticker.Stop()
	for {
		l.dispatch()
		if err := l.ask(p); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
			return errRestarted
		case n := <-l.done:
			l.finish(n)
		case m := <-p.messages:
			if err := l.take(p, m); err != nil {
				return err
			}
		case <-l.config.wake:
		case now := <-ticker.C:
			if l.config.Pause() {
				return errPaused
			}
			if err := p.check(now); err != nil {
				return err
			}
		}
	}
}

// take accepts one message and whatever stands behind it.
func (l *loop) take(p *puller, m *nats.Msg) error {
	now := time.Now()
	for {
		isMessage, err := p.accept(m, now)
		if err != nil {
			return err
		}
		if isMessage {
			l.held.add(m)
			l.buffer = append(l.buffer, m)
			l.stats.messages.Add(1)
			l.stats.fetched.Store(now.UnixNano())
		}
		select {
		case m = <-p.messages:
		default:
			return nil
		}
	}
}

// ask requests what the slots have room for. While a request is outstanding it
// waits until half of the slots are free, so that a busy consumer asks rarely
// and an idle one is always expected.
func (l *loop) ask(p *puller) error {
	slots := l.config.slots()
	want := slots - l.inHand - len(l.buffer) - p.outstanding
	if want <= 0 || p.outstanding > 0 && want < (slots+1)/2 {
		return nil
	}
	return p.ask(min(want, cap(p.messages)/2))
}

// dispatch hands buffered messages to idle workers, as many as there are slots.
func (l *loop) dispatch() {
	for l.idle > 0 && len(l.buffer) > 0 {
		n := min(len(l.buffer), l.config.perJob, l.config.slots()-l.inHand)
		if n <= 0 {
			return
		}
		job := make([]*nats.Msg, n)
		copy(job, l.buffer)
		l.buffer = append(l.buffer[:0], l.buffer[n:]...)
		l.jobs <- job // never blocks: there is room for one job per worker
		l.idle--
		l.inHand += n
	}
}

func (l *loop) finish(n int) {
	l.idle++
	l.inHand -= n
}

// giveBack returns what nobody has begun to handle.
func (l *loop) giveBack(p *puller) {
	for len(p.messages) > 0 {
		m := <-p.messages
		if isMessage, err := p.accept(m, p.heard); err == nil && isMessage {
			l.buffer = append(l.buffer, m)
		}
	}
	for _, m := range l.buffer {
		l.held.remove(m)
		l.settle(m, subjects.Retry(time.Millisecond))
	}
	l.buffer = l.buffer[:0]
}
