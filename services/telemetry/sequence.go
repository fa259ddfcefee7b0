package telemetry

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// maximumCalls is how many calls a sequencer remembers; maximumMissing how many
// events of one call it goes on waiting for.
const (
	maximumCalls   = 1 << 16
	maximumMissing = 64
)

// fillFunc reads events of a call from the table, in order. It returns an error
// only when its context ended; rows that cannot be had are left out.
type fillFunc func(ctx context.Context, tenant string, invocation tool.ID, from, to int) ([]pipeline.Notice, error)

// sequencer puts the events of each call in order (hazard 23). It is used by one
// goroutine.
type sequencer struct {
	fill    fillFunc
	maximum int
	calls   map[callKey]*list.Element
	// recent lists the calls, the one heard of last in front.
	recent *list.List
	// horizon is the time since which every call is known from its first event
	// on; a call begun earlier may have sent events unseen.
	horizon time.Time
	began   bool
}

type callKey struct {
	tenant string
	id     tool.ID
}

type callState struct {
	key callKey
	// last is the highest number that was sent.
	last int
	// missing are lower numbers that were not, and are sent when they come.
	missing []int
}

func newSequencer(fill fillFunc) *sequencer {
	return &sequencer{fill: fill, maximum: maximumCalls, calls: map[callKey]*list.Element{}, recent: list.New()}
}

// fromTheStart says that the first event to come is the first there ever was.
func (s *sequencer) fromTheStart() { s.began = true }

// next takes the next message of the stream and gives what is to be sent now:
// nothing for a late copy, otherwise the event, after those before it that were
// not sent. The error is that of ctx.
func (s *sequencer) next(ctx context.Context, e event) ([]event, error) {
	if !s.began {
		s.horizon, s.began = e.at, true
	}
	if e.call == nil {
		return []event{e}, nil
	}
	state, seq := s.state(&e), e.call.Seq
	if seq <= state.last {
		i := slices.Index(state.missing, seq)
		if i < 0 {
			return nil, nil
		}
		state.missing = slices.Delete(state.missing, i, i+1)
		return []event{e}, nil
	}
	var out []event
	if seq > state.last+1 {
		filled, err := s.fill(ctx, e.tenant, e.call.InvocationID, state.last+1, seq)
		if err != nil {
			return nil, err
		}
		out = state.insert(filled, seq, e.position)
	}
	state.last = seq
	return append(out, e), nil
}

// insert gives the events of the rows found and remembers which numbers below
// seq were not among them.
func (c *callState) insert(found []pipeline.Notice, seq int, before uint64) []event {
	var out []event
	want := c.last + 1
	for i := range found {
		if found[i].Seq < want || found[i].Seq >= seq {
			continue
		}
		c.miss(want, found[i].Seq)
		out = append(out, fromTable(&found[i], before))
		want = found[i].Seq + 1
	}
	c.miss(want, seq)
	return out
}

// miss remembers the numbers from from to, and without, to.
func (c *callState) miss(from, to int) {
	for seq := max(from, to-maximumMissing); seq < to; seq++ {
		c.missing = append(c.missing, seq)
	}
	if over := len(c.missing) - maximumMissing; over > 0 {
		c.missing = slices.Delete(c.missing, 0, over)
	}
}

// state gives what is known of the event's call. Of a call that is not known
// and may have begun unseen nobody can say which events were sent: they are sent
// if they come, and not looked for.
func (s *sequencer) state(e *event) *callState {
	key := callKey{e.tenant, e.call.InvocationID}
	if known, ok := s.calls[key]; ok {
		s.recent.MoveToFront(known)
		return known.Value.(*callState) //nolint:forcetypeassert,errcheck // the list holds nothing else
	}
	state := &callState{key: key}
	if !bornAt(key.id).After(s.horizon) {
		state.miss(1, e.call.Seq)
		state.last = e.call.Seq - 1
	}
	s.calls[key] = s.recent.PushFront(state)
	if s.recent.Len() > s.maximum {
		s.forget()
	}
	return state
}

// forget drops the call that was silent for longest; from now on calls of its
// age are such as may have sent events unseen.
func (s *sequencer) forget() {
	oldest := s.recent.Remove(s.recent.Back()).(*callState) //nolint:forcetypeassert,errcheck // the list holds nothing else
	delete(s.calls, oldest.key)
	if born := bornAt(oldest.key.id); born.After(s.horizon) {
		s.horizon = born
	}
}

// bornAt is the time in a version 7 id.
func bornAt(id tool.ID) time.Time {
	ms := binary.BigEndian.Uint64(id[:8]) >> 16
	return time.UnixMilli(int64(ms))
}

// fillFrom reads from the table again and again until it answers: order is
// worth waiting for, since nothing is committed anyway while the database is
// away. A call that the table does not hold has no events to wait for. The
// patience is bounded, and short after it has ended once, so that a table that
// cannot be read costs order and not the stream.
func (s *Service) fillFrom(ctx context.Context, tenant string, invocation tool.ID, from, to int) ([]pipeline.Notice, error) {
	patience := fillPatience
	if s.impatient.Load() {
		patience = fillImpatience
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := fillRetry; ; wait = min(2*wait, fillRetryMost) {
		found, err := s.o.Tables.EventNotices(bounded, tenant, invocation, from, to)
		if err == nil || errors.Is(err, pipeline.ErrNotFound) {
			s.impatient.Store(false)
			s.o.Metrics.EventsFilled(len(found))
			s.o.Metrics.EventsMissing(to - from - len(found))
			return found, nil
		}
		if !sleep(bounded, wait) {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() //nolint:wrapcheck // the caller knows its context
	}
	s.impatient.Store(true)
	s.o.Metrics.EventsMissing(to - from)
	s.o.Logger.ErrorContext(ctx, "events of a call cannot be read from the table", "invocation_id", invocation.String(), "from", from, "to", to)
	return nil, nil
}

// How long, and how often, rows are asked for.
const (
	fillPatience   = 30 * time.Second
	fillImpatience = time.Second
	fillRetry      = 50 * time.Millisecond
	fillRetryMost  = 2 * time.Second
)

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
