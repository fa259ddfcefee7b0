package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// eventReset is the name of the event that says: your position means nothing
// here, read the tables.
const eventReset = "reset"

// reconnectMilliseconds is how long a client is asked to wait before it
// connects again.
const reconnectMilliseconds = 2000

// events serves GET /v1/events.
func (s *Service) events(w http.ResponseWriter, r *http.Request, v viewer) {
	f, p := parseFilter(r.URL.Query(), v)
	if p == nil && r.Method != http.MethodGet {
		p = &problem{http.StatusMethodNotAllowed, "method_not_allowed", "events are read with GET"}
	}
	if p == nil && !s.hub.place().primed {
		p = &problem{http.StatusServiceUnavailable, "not_ready", "the event stream has not been read yet"}
	}
	if p == nil && !take(s.seats) {
		p = &problem{http.StatusServiceUnavailable, "overloaded", "too many clients follow the events"}
	}
	if p != nil {
		p.write(w)
		return
	}
	defer give(s.seats)
	c := &client{s: s, filter: f, out: w, control: http.NewResponseController(w)}
	if p := c.start(r.Context(), r.Header.Get("Last-Event-ID")); p != nil {
		p.write(w)
		return
	}
	defer c.release()
	defer s.o.Metrics.ClientJoined()()
	err := c.run(r.Context())
	if errors.Is(err, errSlow) {
		s.o.Metrics.ClientDropped()
	}
	s.o.Logger.DebugContext(r.Context(), "client left the event stream", "viewer", v.name, "cause", fmt.Sprint(err))
}

func take(seats chan struct{}) bool {
	select {
	case seats <- struct{}{}:
		return true
	default:
		return false
	}
}

func give(seats chan struct{}) { <-seats }

// errSlow says that a client cannot keep up: it is disconnected and resumes
// with what it saw last.
var errSlow = errors.New("client is too slow")

// client is one connection that follows the events. It is used by the goroutine
// of its request only.
type client struct {
	s       *Service
	filter  filter
	out     http.ResponseWriter
	control *http.ResponseController

	cursor cursor
	// at is where the client stands: what its next Last-Event-ID will say.
	at lastEventID
	// since is the position up to which the client has seen everything already.
	since uint64
	// behind says that the client has to read the stream itself first.
	behind bool
	// reset is why the client is told to start over; empty for no reason.
	reset string

	buffer  bytes.Buffer
	written time.Time
}

// lastEventID is a position in a stream.
type lastEventID struct {
	incarnation string
	sequence    uint64
}

// String gives the form in which clients carry it.
func (id lastEventID) String() string {
	return id.incarnation + "." + strconv.FormatUint(id.sequence, 10)
}

func parseLastEventID(text string) (lastEventID, bool) {
	incarnation, digits, ok := strings.Cut(text, ".")
	sequence, err := strconv.ParseUint(digits, 10, 64)
	return lastEventID{incarnation, sequence}, ok && err == nil
}

// Why a client has to start over.
const (
	resetIncarnation = "unknown_incarnation"
	resetExpired     = "expired"
)

// start finds the place of a client. Without Last-Event-ID that is the end of
// the stream.
func (c *client) start(ctx context.Context, last string) *problem {
	c.standAt(c.s.hub.now())
	if last == "" {
		return nil
	}
	id, ok := parseLastEventID(last)
	switch {
	case !ok || id.incarnation != c.at.incarnation:
		c.reset = resetIncarnation
		return nil
	case id.sequence > c.at.sequence:
		// Another instance may be ahead of this one; nothing is beyond the stream.
		stream, err := c.s.o.Events.EventStream(ctx)
		if err != nil || stream.Incarnation != id.incarnation || id.sequence > stream.Last {
			c.reset = resetIncarnation
			return nil
		}
	}
	c.at, c.since = id, id.sequence
	if c.cursor, ok = c.s.hub.join(id.incarnation, id.sequence); ok {
		return nil
	}
	if !take(c.s.backlogs) {
		return &problem{http.StatusServiceUnavailable, "overloaded", "too many clients read old events"}
	}
	c.behind = true
	return nil
}

// standAt puts the client where the hub says.
func (c *client) standAt(at cursor, p place) {
	c.cursor, c.at, c.since = at, lastEventID{p.incarnation, p.head}, 0
}

// release gives back what start took.
func (c *client) release() {
	if c.behind {
		c.behind = false
		give(c.s.backlogs)
	}
}

// run sends events until the client leaves, the service stops, or the client
// cannot keep up.
func (c *client) run(ctx context.Context) error {
	h := c.out.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	c.out.WriteHeader(http.StatusOK)
	fmt.Fprintf(&c.buffer, "retry: %d\n", reconnectMilliseconds)
	if c.reset != "" {
		c.addReset(c.reset)
	} else {
		c.addPosition()
	}
	if err := c.flush(); err != nil {
		return err
	}
	if c.behind {
		if err := c.catchUp(ctx); err != nil {
			return err
		}
		c.release()
	}
	return c.live(ctx)
}

// live sends what the hub has, as it comes.
func (c *client) live(ctx context.Context) error {
	silence := time.NewTimer(c.s.o.KeepAlive)
	defer silence.Stop()
	for {
		r := c.s.hub.read(&c.cursor)
		switch {
		case r.slow:
			return errSlow
		case r.restarted:
			if err := c.startOver(); err != nil {
				return err
			}
			continue
		case len(r.events) > 0:
			if err := errors.Join(c.send(r.events), c.keepAlive()); err != nil {
				return err
			}
			continue
		}
		silence.Reset(max(0, c.s.o.KeepAlive-time.Since(c.written)))
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // it is logged only
		case <-r.changed:
		case <-silence.C:
			if err := c.keepAlive(); err != nil {
				return err
			}
		}
	}
}

// startOver tells the client that what it followed is gone, and goes on at the
// beginning of what there is now.
func (c *client) startOver() error {
	reason, before := resetIncarnation, c.at.incarnation
	c.standAt(c.s.hub.oldest())
	if c.at.incarnation == before {
		reason = resetExpired
	}
	c.addReset(reason)
	return c.flush()
}

// send writes those events that the client wants.
func (c *client) send(events []event) error {
	for i := range events {
		c.at.sequence = max(c.at.sequence, events[i].resume)
		if events[i].position > c.since && c.filter.matches(&events[i]) {
			c.addEvent(&events[i])
		}
	}
	if c.buffer.Len() == 0 {
		return nil
	}
	return c.flush()
}

func (c *client) addEvent(e *event) {
	fmt.Fprintf(&c.buffer, "id: %s\nevent: %s\ndata: ", lastEventID{c.at.incarnation, e.resume}, e.name)
	c.buffer.Write(e.data)
	c.buffer.WriteString("\n\n")
}

func (c *client) addReset(reason string) {
	fmt.Fprintf(&c.buffer, "id: %s\nevent: %s\ndata: {\"v\":1,\"event\":%q,\"reason\":%q}\n\n", c.at, eventReset, eventReset, reason)
}

// addPosition writes a block without data: the client notes the position and
// sees no event.
func (c *client) addPosition() { fmt.Fprintf(&c.buffer, "id: %s\n\n", c.at) }

// keepAlive breaks a silence that has lasted long enough.
func (c *client) keepAlive() error {
	if time.Since(c.written) < c.s.o.KeepAlive {
		return nil
	}
	c.buffer.WriteString(": keep-alive\n")
	c.addPosition()
	return c.flush()
}

// flush writes what is buffered within the write timeout.
func (c *client) flush() error {
	defer c.buffer.Reset()
	c.written = time.Now()
	err := c.control.SetWriteDeadline(c.written.Add(c.s.o.WriteTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("write deadline: %w", err)
	}
	if _, err := c.out.Write(c.buffer.Bytes()); err != nil {
		return fmt.Errorf("%w: %w", errSlow, err)
	}
	if err := c.control.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errSlow, err)
	}
	return nil
}
