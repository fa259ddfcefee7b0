package telemetry

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolbus/toolbus/subjects"
)

// lookBack is how many messages before its position a client's own reading
// begins: from them it learns which events of calls under way were sent.
const lookBack = 1024

// How a client's own reading ends.
var (
	errCaughtUp = errors.New("caught up")
	errExpired  = errors.New("events were thrown away")
)

// catchUp reads the stream itself, from where the client was to where the
// history begins, and joins there. Order is that of the messages, so that
// nothing is sent twice and nothing left out at the seam.
func (c *client) catchUp(ctx context.Context) error {
	stream, err := c.s.o.Events.EventStream(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("event stream: %w", err)
	case stream.Incarnation != c.at.incarnation:
		return c.startAgain(resetIncarnation)
	case c.at.sequence+1 < stream.First:
		return c.startAgain(resetExpired)
	}
	from := max(stream.First, 1)
	if c.at.sequence > lookBack {
		from = max(from, c.at.sequence-lookBack+1)
	}
	b := &backlog{c: c, sequence: newSequencer(c.s.fillFrom), seen: c.at.sequence}
	if from == 1 {
		b.sequence.fromTheStart()
	}
	err = c.s.o.Events.ReadEvents(ctx, c.at.incarnation, from, func(d subjects.Delivery) error { return b.take(ctx, d) })
	switch {
	case errors.Is(err, errCaughtUp):
		return nil
	case errors.Is(err, errExpired):
		return c.startAgain(resetExpired)
	case err == nil && ctx.Err() != nil:
		return ctx.Err() //nolint:wrapcheck // it is logged only
	case err == nil:
		return errEnded
	}
	return fmt.Errorf("read events: %w", err)
}

// startAgain tells the client to start over, from now.
func (c *client) startAgain(reason string) error {
	c.standAt(c.s.hub.now())
	c.addReset(reason)
	return c.flush()
}

// backlog is a client's own reading of the stream.
type backlog struct {
	c        *client
	sequence *sequencer
	// seen is the position the client came with, last the one read last.
	seen, last uint64
}

func (b *backlog) take(ctx context.Context, d subjects.Delivery) error {
	if d.Sequence > b.seen {
		if b.last <= b.seen && d.Sequence != b.seen+1 {
			return errExpired
		}
		if cursor, ok := b.c.s.hub.join(b.c.at.incarnation, d.Sequence-1); ok {
			b.c.cursor = cursor
			return errCaughtUp
		}
	}
	b.last = d.Sequence
	events, err := b.order(ctx, d)
	if err != nil || d.Sequence <= b.seen {
		return err
	}
	if err := b.c.send(events); err != nil {
		return err
	}
	b.c.at.sequence = d.Sequence
	return b.c.keepAlive()
}

// order gives what the message amounts to for this client. Calls of tenants it
// does not follow are not even looked at.
func (b *backlog) order(ctx context.Context, d subjects.Delivery) ([]event, error) {
	at, err := subjects.ParseEvent(d.Subject)
	if err != nil || !b.c.filter.covers(at.Tenant) {
		return nil, nil //nolint:nilerr // the shared reader reports what is no event
	}
	e, err := decode(d)
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	return b.sequence.next(ctx, e)
}
