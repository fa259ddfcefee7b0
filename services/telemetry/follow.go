package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/toolbus/toolbus/internal/observe"
	"github.com/toolbus/toolbus/subjects"
)

// How long the reader waits before it tries again, and after what time without
// progress while events wait readiness turns red.
const (
	followRetry     = 100 * time.Millisecond
	followRetryMost = 5 * time.Second
	followPatience  = 30 * time.Second
)

// follower is the one reader of the stream that all clients share.
type follower struct {
	s        *Service
	sequence *sequencer
	// counted is the last position whose events were counted, or were there before
	// this process was.
	counted uint64
	// last is the end of the stream when it was looked at.
	last uint64
}

// follow reads the stream until ctx ends, whatever happens to it.
func (s *Service) follow(ctx context.Context) {
	f := &follower{s: s, sequence: newSequencer(s.fillFrom)}
	for wait := followRetry; ; wait = min(2*wait, followRetryMost) {
		before := s.hub.place().head
		err := f.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.hub.place().head != before {
			wait = followRetry
		}
		s.o.Logger.WarnContext(ctx, "event stream is read anew", "cause", fmt.Sprint(err))
		if !sleep(ctx, wait/2+rand.N(wait)) {
			return
		}
	}
}

// once reads for as long as it goes well.
func (f *follower) once(ctx context.Context) error {
	stream, err := f.s.o.Events.EventStream(ctx)
	if err != nil {
		return fmt.Errorf("event stream: %w", err)
	}
	from := f.begin(stream)
	f.last = stream.Last
	f.reached(from - 1)
	if err := f.s.o.Events.ReadEvents(ctx, stream.Incarnation, from, func(d subjects.Delivery) error { return f.take(ctx, d) }); err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	return errEnded
}

// errEnded says that the reading ended though nobody ended it.
var errEnded = errors.New("reading ended unasked")

// begin decides where to read from. A first start looks back as far as the
// history goes, so that clients of the process before can resume from memory and
// calls under way are known; those events are not counted again. A stream created
// anew is new from its beginning.
func (f *follower) begin(stream EventStream) uint64 {
	place, first := f.s.hub.place(), max(stream.First, 1)
	switch {
	case place.incarnation == "":
		from := first
		if history := uint64(f.s.o.History); stream.Last > history { //nolint:gosec // checked to be positive
			from = max(first, stream.Last-history+1)
		}
		if from == 1 {
			f.sequence.fromTheStart()
		}
		f.counted = stream.Last
		f.s.hub.restart(stream.Incarnation, from)
		return from
	case place.incarnation != stream.Incarnation:
		f.counted = first - 1
		f.s.hub.restart(stream.Incarnation, first)
		return first
	case place.head+1 < first: // what was to be read next has been thrown away
		f.s.hub.restart(stream.Incarnation, first)
		return first
	}
	return place.head + 1
}

// take handles one message.
func (f *follower) take(ctx context.Context, d subjects.Delivery) error {
	f.s.o.Metrics.EventRead()
	var events []event
	e, err := decode(d)
	if err != nil {
		f.s.o.Metrics.EventInvalid()
		f.s.o.Logger.WarnContext(ctx, "message of the event stream is no event", "subject", d.Subject, "cause", err.Error())
	} else if events, err = f.sequence.next(ctx, e); err != nil {
		return err
	}
	if d.Sequence > f.counted {
		for i := range events {
			f.s.count(&events[i])
		}
	}
	f.s.hub.add(d.Sequence, events)
	f.reached(d.Sequence)
	return nil
}

// reached opens the service once the end of the stream was seen.
func (f *follower) reached(position uint64) {
	if position >= f.last {
		f.s.hub.prime()
		f.s.opened.Do(func() { close(f.s.read) })
	}
}

// progress is what readiness asks of the reader: that it takes what there is.
func (s *Service) progress() observe.Check {
	var seen uint64
	var at time.Time
	return observe.NewProgress(followPatience, func(ctx context.Context) (observe.Work, error) {
		stream, err := s.o.Events.EventStream(ctx)
		if err != nil {
			return observe.Work{}, fmt.Errorf("event stream: %w", err)
		}
		place := s.hub.place()
		if place.head != seen {
			seen, at = place.head, time.Now()
		}
		work := observe.Work{Last: at}
		if place.incarnation != stream.Incarnation || place.head < stream.Last {
			work.Pending = 1
		}
		return work, nil
	})
}
