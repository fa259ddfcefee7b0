package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// tailBuffer is how many events may wait for a slow handler.
const tailBuffer = 8192

// TailOptions choose the events to follow.
type TailOptions struct {
	// Run, unless zero, is the only run.
	Run tool.ID
	// Event is the pattern of the name, such as tool.call.uncertain, tool.call.*
	// or mcp.>; empty means every event.
	Event string
	// Ready, unless nil, is called once the server knows of the subscription.
	Ready func()
	// Missed, unless nil, is called when events may have been missed: the
	// connection was lost and made again, or the handler was too slow.
	Missed func()
}

// Event is one event; exactly one of Call and Other is set.
type Event struct {
	// Tenant, Run and Name are those of the subject. A zero Run means an event
	// that belongs to no run.
	Tenant string
	Run    tool.ID
	Name   string
	// Call is set for an event of a call.
	Call *subjects.CallEvent
	// Other is set for every other event.
	Other *subjects.Event
}

// Tail calls handle for each event of the client's tenant, one at a time, until
// ctx ends, and returns nil then; handle must not block for long. It is best
// effort: events that happen while the connection is away, or while handle is
// behind by more than 8,192 events, are not made up for, and one may
// come twice with the same event id. The tables and the HTTP stream of telemetry
// have every event. Events are for operators; a runtime's identity usually may
// not subscribe to them, which is [ErrPermission].
func (c *Client) Tail(ctx context.Context, options TailOptions, handle func(Event)) error {
	return c.tail(ctx, c.options.Tenant, options, handle)
}

// TailAll is [Client.Tail] for every tenant that the identity may see.
func (c *Client) TailAll(ctx context.Context, options TailOptions, handle func(Event)) error {
	return c.tail(ctx, "*", options, handle)
}

func (c *Client) tail(ctx context.Context, tenant string, o TailOptions, handle func(Event)) error {
	subject, err := eventPattern(tenant, o)
	if err != nil {
		return fmt.Errorf("tail: %w", err)
	}
	flying, land := c.watchDenial(ctx, subject)
	defer land()
	lost := c.reconnected()
	messages := make(chan *nats.Msg, tailBuffer)
	sub, err := c.conn.ChanSubscribe(subject, messages)
	if err != nil {
		return fmt.Errorf("tail: %w", sendError(err))
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	err = c.flush(flying)
	if err == nil {
		if o.Ready != nil {
			o.Ready()
		}
		err = c.follow(flying, sub, messages, o, lost, handle)
	}
	switch cause := context.Cause(flying); {
	case errors.Is(cause, ErrPermission):
		return fmt.Errorf("tail: %w", cause)
	case cause != nil:
		return nil
	}
	return fmt.Errorf("tail: %w", err)
}

// follow hands events over until ctx ends or the client is closed.
func (c *Client) follow(ctx context.Context, sub *nats.Subscription, messages <-chan *nats.Msg, o TailOptions, lost <-chan struct{}, handle func(Event)) error {
	missed := func() {
		if o.Missed != nil {
			o.Missed()
		}
	}
	dropped := 0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the caller knows what it means
		case <-c.closed:
			return ErrClosed
		case <-lost:
			lost = c.reconnected()
			missed()
		case m := <-messages:
			if n, err := sub.Dropped(); err == nil && n > dropped {
				dropped = n
				missed()
			}
			if e, ok := c.readEvent(m); ok {
				handle(e)
			}
		}
	}
}

// watchDenial is takeOff for a subscription, which survives a lost connection.
func (c *Client) watchDenial(ctx context.Context, subject string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	f := &flight{subject: subject, cancel: func(cause error) {
		if errors.Is(cause, ErrPermission) {
			cancel(cause)
		}
	}}
	c.mu.Lock()
	c.flights[f] = struct{}{}
	c.mu.Unlock()
	return ctx, func() {
		c.mu.Lock()
		delete(c.flights, f)
		c.mu.Unlock()
		cancel(nil)
	}
}

// eventPattern spells the subject of a subscription to events.
func eventPattern(tenant string, o TailOptions) (string, error) {
	run := "*"
	if !o.Run.IsZero() {
		run = o.Run.String()
	}
	event := o.Event
	if event == "" {
		event = ">"
	}
	tokens := strings.Split(event, ".")
	for i, token := range tokens {
		last := i == len(tokens)-1
		if token != "*" && !subjects.ValidEventName(token) && (token != ">" || !last) {
			return "", fmt.Errorf("event pattern: %w", subjects.ErrToken)
		}
	}
	return "toolbus.event." + tenant + "." + run + "." + event, nil
}

// readEvent decodes an event; one that does not is logged and left out.
func (c *Client) readEvent(m *nats.Msg) (Event, bool) {
	at, err := subjects.ParseEvent(m.Subject)
	if err != nil {
		c.log.Warn("event subject does not parse", "cause", err.Error())
		return Event{}, false
	}
	e := Event{Tenant: at.Tenant, Run: at.Run, Name: at.Name}
	var tenant string
	if subjects.SketchEvent(m.Data).InvocationID.IsZero() {
		var other subjects.Event
		other, err = subjects.DecodeEvent(m.Data)
		e.Other, tenant = &other, other.TenantID
	} else {
		var call subjects.CallEvent
		call, err = subjects.DecodeCallEvent(m.Data)
		e.Call, tenant = &call, call.TenantID
	}
	if err == nil && tenant != at.Tenant {
		err = &subjects.FieldError{Field: "tenant_id", Rule: "must be the tenant of the subject"}
	}
	if err != nil {
		c.log.Warn("event does not decode", "subject", m.Subject, "cause", err.Error())
		return Event{}, false
	}
	return e, true
}
