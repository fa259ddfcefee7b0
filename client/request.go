package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolbus/toolbus/subjects"
)

const (
	attemptTimeout = 5 * time.Second
	// openTimeout covers the 60 s within which session_open answers.
	openTimeout = 65 * time.Second
	firstPause  = 50 * time.Millisecond
	lastPause   = 2 * time.Second
)

// transientError is a failure after which the same is tried again.
type transientError struct{ err error }

func (e *transientError) Error() string { return e.err.Error() }

func (e *transientError) Unwrap() error { return e.err }

func transient(err error) error { return &transientError{err} }

// insist calls attempt until it succeeds, fails for good, ctx ends or the
// client's patience does. Everything it is used for may be done twice.
func (c *Client) insist(ctx context.Context, attempt func(context.Context) error) error {
	end := time.Now().Add(c.options.Patience)
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		reconnected := c.reconnected()
		err := attempt(ctx)
		var again *transientError
		if err == nil || !errors.As(err, &again) {
			return err
		}
		if time.Now().Before(end) && c.pause(ctx, wait, reconnected) {
			continue
		}
		switch {
		case c.conn.IsClosed():
			return ErrClosed
		case errors.Is(ctx.Err(), context.Canceled):
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", ErrUnavailable, again.err)
	}
}

// pause waits about d, less when the connection comes back; it reports false
// when there is nothing to go on for.
func (c *Client) pause(ctx context.Context, d time.Duration, reconnected <-chan struct{}) bool {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-c.closed:
		return false
	case <-reconnected:
	case <-timer.C:
	}
	return true
}

// send is one attempt to send data and hear an answer.
func (c *Client) send(ctx context.Context, subject string, data []byte, headers map[string]string, limit time.Duration) (*nats.Msg, error) {
	message := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	for _, set := range []map[string]string{headers, c.options.Inject(ctx)} {
		for name, value := range set {
			message.Header.Set(name, value)
		}
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	flying, land := c.takeOff(limited, subject)
	defer land()
	answer, err := c.conn.RequestMsgWithContext(flying, message)
	if err == nil {
		return answer, nil
	}
	switch cause := context.Cause(flying); {
	case errors.Is(cause, ErrPermission):
		return nil, cause
	case errors.Is(cause, errLost):
		return nil, transient(errLost)
	case limited.Err() != nil:
		return nil, transient(limited.Err())
	}
	return nil, sendError(err)
}

// sendError sorts the failures of the library into those that pass and those
// that do not.
func sendError(err error) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrHeadersNotSupported):
		return fmt.Errorf("send: %w", err)
	}
	return transient(err)
}

// Request asks a verb of a service on behalf of the client's tenant and decodes
// the answer strictly into what into points to. It repeats the question while
// nobody answers, so the verb must bear it. A failure that the service reports
// is a [*subjects.RPCError]; overloaded services are asked again. The typed
// methods cover the gatekeeper; this one reaches every other verb.
func (c *Client) Request(ctx context.Context, service, verb string, payload, into any) error {
	return c.request(ctx, service, verb, payload, into, attemptTimeout)
}

func (c *Client) request(ctx context.Context, service, verb string, payload, into any, limit time.Duration) error {
	subject, err := subjects.RPC(service, verb, c.options.Tenant)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	data, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("%s: encode: %w", verb, err)
	}
	err = c.insist(ctx, func(ctx context.Context) error {
		answer, err := c.send(ctx, subject, data, nil, limit)
		if err != nil {
			return err
		}
		return readAnswer(answer, into)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

func readAnswer(answer *nats.Msg, into any) error {
	if code := answer.Header.Get(micro.ErrorCodeHeader); code != "" {
		failure := &subjects.RPCError{Code: code, Message: answer.Header.Get(micro.ErrorHeader)}
		if code == subjects.CodeOverloaded {
			return transient(failure)
		}
		return failure
	}
	if err := subjects.Decode(answer.Data, into); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

// flush waits until the server has taken note of everything sent so far.
func (c *Client) flush(ctx context.Context) error {
	return c.insist(ctx, func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		// The library says closed for a flush that a reconnect cut short, too.
		if err := c.conn.FlushWithContext(limited); err != nil {
			return transient(err)
		}
		return nil
	})
}

func (c *Client) ask(ctx context.Context, verb string, payload, into any) error {
	return c.request(ctx, subjects.ServiceGatekeeper, verb, payload, into, attemptTimeout)
}
