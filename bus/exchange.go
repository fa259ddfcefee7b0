package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolbus/toolbus/subjects"
)

// ErrSilent says that the other side of an exchange was not heard of for too long.
var ErrSilent = errors.New("no sign of life from the other side")

// Exchange sends a request that is answered by any number of frames and calls
// frame for each, in order, until it says done or returns an error. It fails
// with [ErrNoService] when nobody received the request, with [ErrSilent] when no
// frame came for the time of silence, and with a *subjects.RPCError when the
// other side was too busy to begin. It never sends the request twice.
func (b *Bus) Exchange(ctx context.Context, subject string, data []byte, silence time.Duration, frame func([]byte) (done bool, err error)) error {
	frames := make(chan *nats.Msg, backlog)
	sub, err := b.conn.ChanSubscribe(b.conn.NewInbox(), frames)
	if err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	request := &nats.Msg{Subject: subject, Reply: sub.Subject, Data: data, Header: nats.Header{}}
	addTrace(request.Header, b.options.Inject(ctx))
	if err := b.conn.PublishMsg(request); err != nil {
		return sendError(err)
	}
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("exchange: %w", ctx.Err())
		case <-quiet.C:
			return ErrSilent
		case m := <-frames:
			if err := refused(m); err != nil {
				return err
			}
			if done, err := frame(m.Data); done || err != nil {
				return err
			}
			quiet.Reset(silence)
		}
	}
}

func refused(m *nats.Msg) error {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return ErrNoService
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return &subjects.RPCError{Code: code, Message: m.Header.Get(micro.ErrorHeader)}
	}
	return nil
}

// ExchangeHandler serves one exchange: send may be called any number of times,
// by one goroutine at a time, until the handler returns.
type ExchangeHandler func(ctx context.Context, request subjects.Delivery, send func([]byte) error)

// ServeExchange answers exchanges on a subject, at most concurrency at once and
// each in a goroutine of its own, until ctx ends; then it waits for the handlers.
// What exceeds the bound is told overloaded at once. ready, unless nil, is
// called once requests are received.
func (b *Bus) ServeExchange(ctx context.Context, subject string, concurrency int, ready func(), handle ExchangeHandler) error {
	listener, err := b.Listen(ctx, subject)
	if err != nil {
		return err
	}
	defer listener.Stop()
	if ready != nil {
		ready()
	}
	slots := make(chan struct{}, max(concurrency, 1))
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-listener.messages:
			select {
			case slots <- struct{}{}:
				running.Go(func() {
					defer func() { <-slots }()
					b.serveExchange(ctx, m, handle)
				})
			default:
				b.tellOverloaded(m)
			}
		}
	}
}

func (b *Bus) serveExchange(ctx context.Context, m *nats.Msg, handle ExchangeHandler) {
	trace := readTrace(m.Header)
	ctx = b.options.Extract(ctx, trace)
	defer func() {
		if p := recover(); p != nil {
			b.log.ErrorContext(ctx, "handler panicked", "subject", m.Subject)
		}
	}()
	handle(ctx, subjects.Delivery{Subject: m.Subject, Data: m.Data, Header: trace}, func(frame []byte) error {
		if err := b.conn.Publish(m.Reply, frame); err != nil {
			return sendError(err)
		}
		return nil
	})
}

func (b *Bus) tellOverloaded(m *nats.Msg) {
	answer := &nats.Msg{Subject: m.Reply, Header: nats.Header{}}
	answer.Header.Set(micro.ErrorCodeHeader, subjects.CodeOverloaded)
	answer.Header.Set(micro.ErrorHeader, "too many exchanges under way")
	if err := b.conn.PublishMsg(answer); err != nil {
		b.log.Warn("exchange was not refused", "cause", err.Error())
	}
}
