package telemetry

import (
	"context"

	"github.com/toolbus/toolbus/subjects"
)

// Follow runs the shared reader alone.
func (s *Service) Follow(ctx context.Context) { s.follow(ctx) }

// Sample runs the look at the tables alone.
func (s *Service) Sample(ctx context.Context) { s.sample(ctx) }

// Kept is how many events the memory holds.
func (s *Service) Kept() int {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return len(s.hub.events)
}

// SetMaximumCalls bounds how many calls a sequencer remembers.
func (s *Sequencer) SetMaximumCalls(n int) { s.inner.maximum = n }

// Sequencer is the sequencer, fed with messages.
type Sequencer struct{ inner *sequencer }

// NewSequencer makes one that reads from the service's table.
func (s *Service) NewSequencer() *Sequencer { return &Sequencer{newSequencer(s.fillFrom)} }
func (s *Sequencer) FromTheStart()          { s.inner.fromTheStart() }

// Next takes a message and gives the bodies of the events to be sent now.
func (s *Sequencer) Next(ctx context.Context, d subjects.Delivery) ([]string, error) {
	e, err := decode(d)
	if err != nil {
		return nil, err
	}
	events, err := s.inner.next(ctx, e)
	var out []string
	for _, e := range events {
		out = append(out, string(e.data))
	}
	return out, err
}

// Primed is closed when the stream was read to its end.
func (s *Service) Primed() <-chan struct{} { return s.read }
