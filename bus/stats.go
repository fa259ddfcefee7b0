package bus

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// ConsumerStats tell whether a consumer gets anywhere. A connection that stands
// proves nothing: what counts is progress while something is pending.
type ConsumerStats struct {
	Stream  string
	Durable string
	// Bound says that pull requests may be outstanding; Paused, that they are
	// withheld on purpose.
	Bound  bool
	Paused bool
	// LastMessage is when the last message came; zero when none did.
	LastMessage time.Time
	// Messages counts them, Rebinds the times that it had to bind again.
	Messages int64
	Rebinds  int64
	// Pending is how many messages the server said were waiting, when it last
	// said so.
	Pending int64
}

// Stalled reports whether messages wait and none has come for the given time.
func (s ConsumerStats) Stalled(now time.Time, patience time.Duration) bool {
	return !s.Paused && s.Pending > 0 && now.Sub(s.LastMessage) > patience
}

// Stats gives the state of every running consumer, by name.
func (b *Bus) Stats() []ConsumerStats {
	b.consumers.mu.Lock()
	defer b.consumers.mu.Unlock()
	var out []ConsumerStats
	for _, name := range slices.Sorted(maps.Keys(b.consumers.loops)) {
		out = append(out, b.consumers.loops[name].snapshot())
	}
	return out
}

func (l *loop) snapshot() ConsumerStats {
	s := ConsumerStats{
		Stream:   l.config.Stream,
		Durable:  l.config.Durable,
		Bound:    l.stats.bound.Load(),
		Paused:   l.stats.paused.Load(),
		Messages: l.stats.messages.Load(),
		Rebinds:  l.stats.rebinds.Load(),
		Pending:  l.stats.pendingNow(),
	}
	if at := l.stats.fetched.Load(); at != 0 {
		s.LastMessage = time.Unix(0, at)
	}
	return s
}

// registry holds the running consumers of a bus, one per durable.
type registry struct {
	mu    sync.Mutex
	loops map[string]*loop
}

func (r *registry) add(l *loop) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, running := r.loops[l.name()]; running {
		return fmt.Errorf("%s is consumed on this connection already", l.name())
	}
	if r.loops == nil {
		r.loops = map[string]*loop{}
	}
	r.loops[l.name()] = l
	return nil
}

func (r *registry) remove(l *loop) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.loops, l.name())
}
