package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
)

const (
	flushRows  = 200
	flushBytes = 8 << 20
)

// lane is group commit for one kind of operation: one goroutine, one
// connection, one flush at a time. The flush under way is the batching window;
// there is no timer.
type lane[O, V any] struct {
	name string
	log  *slog.Logger
	in   chan *pending[O, V]
	stop context.CancelFunc
	done sync.WaitGroup
	gone chan struct{} // closed when no operation is taken any more
	conn laneConn

	// size is what an operation adds to a flush, in bytes.
	size func(O) int
	// keys name the rows an operation touches; a flush holds at most one
	// operation per key, a later one waits for the next flush.
	keys func(O) []string
	// flush writes the operations in one transaction and gives a verdict for
	// each, by its ordinal.
	flush func(ctx context.Context, c *pgx.Conn, ops []O) ([]V, error)

	flushes atomic.Int64
	ops     atomic.Int64
	since   atomic.Int64 // unix nanoseconds since when the database has not answered; 0 if it does
}

type pending[O, V any] struct {
	op      O
	verdict V
	err     error
	done    chan struct{}
}

func (l *lane[O, V]) start(ctx context.Context, config *pgx.ConnConfig) {
	ctx, l.stop = context.WithCancel(ctx) //nolint:gosec // called by close
	l.conn.config = config
	l.in = make(chan *pending[O, V], 4*flushRows)
	l.gone = make(chan struct{})
	l.done.Go(func() {
		defer close(l.gone)
		l.run(ctx)
	})
}

func (l *lane[O, V]) close() {
	l.stop()
	l.done.Wait()
}

// do hands over one operation and waits for its verdict, whatever happens to
// the caller's context after the handover: a claim or a watermark that was
// written must have an owner.
func (l *lane[O, V]) do(ctx context.Context, op O) (V, error) {
	p := &pending[O, V]{op: op, done: make(chan struct{})}
	select {
	case l.in <- p:
	case <-ctx.Done():
		var none V
		return none, fmt.Errorf("%s: %w", l.name, ctx.Err())
	}
	select {
	case <-p.done:
		return p.verdict, p.err
	case <-l.gone:
	}
	select {
	case <-p.done:
		return p.verdict, p.err
	default: // handed over to a lane that had already stopped: never written
		var none V
		return none, fmt.Errorf("%s: %w", l.name, ErrStopped)
	}
}

func (l *lane[O, V]) run(ctx context.Context) {
	defer l.conn.drop(ctx)
	var held []*pending[O, V]
	for {
		batch, rest := l.gather(ctx, held)
		if batch == nil {
			held = rest
			l.finish(held, ErrStopped)
			return
		}
		held = rest
		l.write(ctx, batch)
	}
}

func (l *lane[O, V]) finish(ps []*pending[O, V], err error) {
	for _, p := range ps {
		p.err = err
		close(p.done)
	}
}

// gather waits for one operation and takes what else is queued. A nil batch
// means that the lane stops.
func (l *lane[O, V]) gather(ctx context.Context, held []*pending[O, V]) (batch, rest []*pending[O, V]) {
	seen := map[string]bool{}
	bytes := 0
	add := func(p *pending[O, V]) {
		keys := l.keys(p.op)
		for _, k := range keys {
			if seen[k] {
				rest = append(rest, p)
				return
			}
		}
		for _, k := range keys {
			seen[k] = true
		}
		bytes += l.size(p.op)
		batch = append(batch, p)
	}
	for _, p := range held {
		add(p)
	}
	if len(batch) == 0 {
		select {
		case p := <-l.in:
			add(p)
		case <-ctx.Done():
			return nil, rest
		}
	}
	for len(batch) < flushRows && bytes < flushBytes {
		select {
		case p := <-l.in:
			add(p)
		default:
			return batch, rest
		}
	}
	return batch, rest
}

// write flushes until every operation has its verdict: whole again after a
// failure of the engine, halved after a failure of the data.
func (l *lane[O, V]) write(ctx context.Context, batch []*pending[O, V]) {
	ops := make([]O, len(batch))
	for i, p := range batch {
		ops[i] = p.op
	}
	verdicts, err := l.retry(ctx, ops)
	switch {
	case err == nil:
		l.flushes.Add(1)
		l.ops.Add(int64(len(ops)))
		for i, p := range batch {
			p.verdict = verdicts[i]
			close(p.done)
		}
	case len(batch) > 1 && !errors.Is(err, ErrStopped):
		l.write(ctx, batch[:len(batch)/2])
		l.write(ctx, batch[len(batch)/2:])
	default:
		l.finish(batch, err)
	}
}

func (l *lane[O, V]) retry(ctx context.Context, ops []O) ([]V, error) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 5*time.Millisecond, 2*time.Second
	for {
		verdicts, err := l.once(ctx, ops)
		if err == nil {
			l.since.Store(0)
			return verdicts, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", l.name, ErrStopped)
		}
		switch classify(err) {
		case failData:
			return nil, fmt.Errorf("%s: %w: %w", l.name, ErrUnstorable, err)
		case failFinal:
			return nil, fmt.Errorf("%s: %w", l.name, err)
		case failRetry:
		}
		if l.since.CompareAndSwap(0, time.Now().UnixNano()) {
			l.log.WarnContext(ctx, "flush is run again", "lane", l.name, "operations", len(ops), "cause", err.Error())
		}
		timer := time.NewTimer(wait.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%s: %w", l.name, ErrStopped)
		}
	}
}

func (l *lane[O, V]) once(ctx context.Context, ops []O) ([]V, error) {
	bound, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	conn, err := l.conn.get(bound)
	if err != nil {
		return nil, err
	}
	verdicts, err := l.flush(bound, conn, ops)
	if err != nil {
		l.conn.drop(ctx)
		return nil, err
	}
	return verdicts, nil
}

// away gives for how long the lane has had no answer from the database.
func (l *lane[O, V]) away() time.Duration {
	return since(l.since.Load())
}

func since(unixNano int64) time.Duration {
	if unixNano == 0 {
		return 0
	}
	return time.Duration(time.Now().UnixNano() - unixNano)
}
