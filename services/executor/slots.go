package executor

import (
	"sync"

	"github.com/toolbus/toolbus/pipeline"
)

// maximumParked bounds the hints parked for one tenant; the sweep finds what is
// beyond it.
const maximumParked = 1024

// slots bounds the calls under way and shares them between tenants. Safe for
// concurrent use.
type slots struct {
	mu      sync.Mutex
	total   int
	share   int
	reserve int
	used    int
	held    map[string]int
	parked  map[string][]pipeline.Hint
	// wakers are signalled whenever a slot was given back.
	wakers []chan struct{}
}

func newSlots(total, share int) *slots {
	return &slots{
		total: total, share: share, reserve: min(total-1, max(1, total/8)),
		held: map[string]int{}, parked: map[string][]pipeline.Hint{},
	}
}

// waker gives a channel that is signalled whenever a slot was given back. Call
// it before the slots are in use.
func (s *slots) waker() <-chan struct{} {
	c := make(chan struct{}, 1)
	s.wakers = append(s.wakers, c)
	return c
}

// free gives how many hints are wanted now.
func (s *slots) free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - s.used
}

// limit is what a tenant may hold: its share while others are here, else all
// but a reserve that keeps hints of others coming in. The lock is held.
func (s *slots) limit(tenant string) int {
	for other := range s.held {
		if other != tenant {
			return s.share
		}
	}
	for other := range s.parked {
		if other != tenant {
			return s.share
		}
	}
	return s.total - s.reserve
}

// admitted is what became of a hint that asked for a slot.
type admitted int

const (
	granted admitted = iota
	parkedHint
	noSlot
)

// take asks for a slot for a hint. A tenant at its limit has the hint parked.
func (s *slots) take(h pipeline.Hint) admitted {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[h.Tenant] >= s.limit(h.Tenant) {
		if len(s.parked[h.Tenant]) < maximumParked {
			s.parked[h.Tenant] = append(s.parked[h.Tenant], h)
		}
		return parkedHint
	}
	if s.used >= s.total {
		return noSlot
	}
	s.used++
	s.held[h.Tenant]++
	return granted
}

// give returns a slot.
func (s *slots) give(tenant string) {
	s.mu.Lock()
	s.used--
	if s.held[tenant]--; s.held[tenant] <= 0 {
		delete(s.held, tenant)
	}
	s.mu.Unlock()
	for _, c := range s.wakers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// next takes parked hints that may run now, with their slots.
func (s *slots) next(limit int) []pipeline.Hint {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []pipeline.Hint
	for tenant, hints := range s.parked {
		for len(hints) > 0 && len(out) < limit && s.used < s.total && s.held[tenant] < s.limit(tenant) {
			out = append(out, hints[0])
			hints = hints[1:]
			s.used++
			s.held[tenant]++
		}
		if len(hints) == 0 {
			delete(s.parked, tenant)
		} else {
			s.parked[tenant] = hints
		}
	}
	return out
}
