package telemetry

import (
	"sort"
	"sync"
)

// hub keeps the last events of the stream, in order, for all clients: each
// reads at its own pace and none holds another up. Memory is bounded by the
// history, whatever the clients do. Safe for concurrent use.
type hub struct {
	history int

	mu          sync.Mutex
	incarnation string
	// epoch is raised when what is here has nothing to do with what was before.
	epoch int
	// events are those with the absolute numbers first, first+1, …
	events []event
	first  uint64
	// Every event beyond the position floor is here; head is the position of the
	// last message that was read.
	floor, head uint64
	// primed says that head has once reached the end of the stream.
	primed  bool
	changed chan struct{}
}

func newHub(history int) *hub { return &hub{history: history, changed: make(chan struct{})} }

// cursor is how far a client has read.
type cursor struct {
	epoch int
	next  uint64
}

// restart begins anew, with the stream of that incarnation, from a sequence on.
func (h *hub) restart(incarnation string, from uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.incarnation = incarnation
	h.epoch++
	h.first += uint64(len(h.events))
	h.events = nil
	h.floor, h.head = from-1, from-1
	h.wake()
}

// prime says that the end of the stream has been reached.
func (h *hub) prime() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.primed = true
}

// add takes what the message at the position amounts to; nothing for a late
// copy.
func (h *hub) add(position uint64, events []event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head = position
	if len(events) == 0 {
		return
	}
	h.events = append(h.events, events...)
	if over := len(h.events) - h.history; over > 0 {
		h.floor = h.events[over-1].position
		clear(h.events[:over]) // what is dropped must not be kept alive by the array
		h.events = h.events[over:]
		h.first += uint64(over)
	}
	h.wake()
}

func (h *hub) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// place is where the hub stands.
type place struct {
	incarnation string
	head        uint64
	primed      bool
}

func (h *hub) place() place {
	h.mu.Lock()
	defer h.mu.Unlock()
	return place{h.incarnation, h.head, h.primed}
}

// join gives a cursor for a client that has seen everything up to the position;
// false when that is not in the younger half of the history: a client that began
// in the older one might be overtaken before it has read anything.
func (h *hub) join(incarnation string, position uint64) (cursor, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if incarnation != h.incarnation || position < h.floor {
		return cursor{}, false
	}
	i := sort.Search(len(h.events), func(i int) bool { return h.events[i].position > position })
	if len(h.events)-i > (h.history+1)/2 {
		return cursor{}, false
	}
	return cursor{h.epoch, h.first + uint64(i)}, true //nolint:gosec // an index
}

// now gives a cursor for a client that wants what comes next, and the place it
// starts from.
func (h *hub) now() (cursor, place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cursor{h.epoch, h.first + uint64(len(h.events))}, place{h.incarnation, h.head, h.primed}
}

// reading is what a client finds.
type reading struct {
	events []event
	// restarted says that the cursor belongs to a stream that is gone; slow, that
	// the client is too far behind. Both end the reading.
	restarted, slow bool
	// changed is closed when there is more, if events is empty.
	changed <-chan struct{}
}

// maximumReading bounds how many events one reading takes.
const maximumReading = 128

// read gives what follows the cursor and moves it.
func (h *hub) read(c *cursor) reading {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := reading{changed: h.changed}
	end := h.first + uint64(len(h.events))
	switch {
	case c.epoch != h.epoch:
		r.restarted = true
	case c.next < h.first:
		r.slow = true
	case c.next < end:
		from := h.events[c.next-h.first:]
		r.events = append(r.events, from[:min(len(from), maximumReading)]...)
		c.next += uint64(len(r.events))
	}
	return r
}

// oldest gives a cursor at the first event that is here, and the place before
// it.
func (h *hub) oldest() (cursor, place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return cursor{h.epoch, h.first}, place{h.incarnation, h.floor, h.primed}
}
