package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// Client is one connection to the bus, for one tenant. Safe for concurrent use.
type Client struct {
	options Options
	log     *slog.Logger
	conn    *nats.Conn
	closed  chan struct{} // closed by the connection's own handler
	closing sync.Once

	mu sync.Mutex
	// reconnect is closed and replaced at each reconnect.
	reconnect chan struct{}
	flights   map[*flight]struct{}
	runs      map[*Run]struct{}
	// inbox is set while the server refuses this connection its own inbox.
	inbox error
}

// flight is something under way that the fate of the connection ends early.
type flight struct {
	subject string
	cancel  context.CancelCauseFunc
}

// errLost ends an attempt whose connection is gone: its answer cannot come.
var errLost = errors.New("connection lost")

// Dial connects and waits until the connection stands or ctx ends; ctx bounds
// the connecting only. A connection that is lost later is made again for as long
// as the client lives. The caller closes the client.
func Dial(ctx context.Context, options Options) (*Client, error) {
	if err := options.withDefaults(); err != nil {
		return nil, err
	}
	c := &Client{
		options: options, log: options.Logger,
		closed: make(chan struct{}), reconnect: make(chan struct{}),
		flights: map[*flight]struct{}{}, runs: map[*Run]struct{}{},
	}
	up := make(chan struct{}, 1)
	conn, err := nats.Connect(options.URL, c.natsOptions(up)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	c.conn = conn
	if err := c.await(ctx, up); err != nil {
		conn.Close()
		<-c.closed
		return nil, err
	}
	return c, nil
}

func (c *Client) await(ctx context.Context, up <-chan struct{}) error {
	if c.conn.IsConnected() {
		return nil
	}
	select {
	case <-up:
		return nil
	case <-c.closed:
		return fmt.Errorf("connect to NATS: %w", refusal(c.conn.LastError()))
	case <-ctx.Done():
		return fmt.Errorf("connect to NATS: %w: %w", ErrUnavailable, ctx.Err())
	}
}

// refusal says why the server ended the connection before it was of use.
func refusal(err error) error {
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("%w: %w", ErrPermission, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrClosed, err)
	default:
		return ErrClosed
	}
}

// Close closes the connection and every run, and waits for the connection's end.
// Whoever waits for something gets [ErrClosed]. Calls that were proposed go on
// without their runtime. Calling it again does nothing.
func (c *Client) Close() {
	c.closing.Do(func() {
		for _, r := range c.openRuns() {
			r.Close()
		}
		c.conn.Close()
		<-c.closed
	})
}

// Tenant is the tenant whose subjects the client uses.
func (c *Client) Tenant() string { return c.options.Tenant }

func (c *Client) openRuns() []*Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	runs := make([]*Run, 0, len(c.runs))
	for r := range c.runs {
		runs = append(runs, r)
	}
	return runs
}

// reconnected gives a channel that is closed at the next reconnect.
func (c *Client) reconnected() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reconnect
}

// takeOff derives a context that also ends, with its cause, when the connection
// is lost or the server refuses subject. The returned function ends the flight.
func (c *Client) takeOff(ctx context.Context, subject string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	f := &flight{subject: subject, cancel: cancel}
	c.mu.Lock()
	c.flights[f] = struct{}{}
	if c.inbox != nil {
		cancel(c.inbox)
	}
	c.mu.Unlock()
	return ctx, func() {
		c.mu.Lock()
		delete(c.flights, f)
		c.mu.Unlock()
		cancel(nil)
	}
}

// ground ends the flights that concerned picks.
func (c *Client) ground(cause error, concerned func(*flight) bool) {
	for f := range c.flights {
		if concerned(f) {
			f.cancel(cause)
		}
	}
}

func (c *Client) onDisconnect(_ *nats.Conn, err error) {
	c.mu.Lock()
	c.ground(errLost, func(*flight) bool { return true })
	c.inbox = nil // subscriptions are judged anew
	c.mu.Unlock()
	if err != nil {
		c.log.Warn("disconnected from nats", "cause", err.Error())
	}
}

func (c *Client) onReconnect(*nats.Conn) {
	c.mu.Lock()
	close(c.reconnect)
	c.reconnect = make(chan struct{})
	c.mu.Unlock()
	c.log.Info("reconnected to nats")
}

func (c *Client) onError(_ *nats.Conn, sub *nats.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	if !errors.Is(err, nats.ErrPermissionViolation) {
		c.log.Warn("nats reported an error", "cause", err.Error(), "subject", subject)
		return
	}
	c.log.Error("nats refused an operation", "cause", err.Error())
	c.denied(err)
}

// denied tells those who wait on a refused subject. The server names it in the
// text of its error and nowhere else.
func (c *Client) denied(err error) {
	denial := fmt.Errorf("%w: %w", ErrPermission, err)
	if subject, ok := quoted(err.Error(), `Publish to "`); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ground(denial, func(f *flight) bool { return f.subject == subject })
		return
	}
	subject, ok := quoted(err.Error(), `Subscription to "`)
	if !ok {
		return
	}
	if strings.HasPrefix(subject, c.options.InboxPrefix+".") {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.inbox = denial
		c.ground(denial, func(*flight) bool { return true })
		return
	}
	c.mu.Lock()
	c.ground(denial, func(f *flight) bool { return f.subject == subject })
	c.mu.Unlock()
	for _, r := range c.openRuns() {
		if r.listensTo(subject) {
			r.fail(denial)
		}
	}
}

// quoted gives what stands between prefix and the next quotation mark.
func quoted(text, prefix string) (string, bool) {
	_, rest, ok := strings.Cut(text, prefix)
	if !ok {
		return "", false
	}
	subject, _, ok := strings.Cut(rest, `"`)
	return subject, ok
}
