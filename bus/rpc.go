package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolbus/toolbus/subjects"
)

// RPCService is a service that answers requests, listed by nats micro ls.
type RPCService struct {
	// Name and Version (a semantic version) are what the listing shows.
	Name, Version string
	Endpoints     []Endpoint
	// Concurrency bounds the requests under way over all endpoints; a request
	// beyond it is answered overloaded at once. 0 means 64.
	Concurrency int
	// Timeout ends a handler's context; 0 means 60 s.
	Timeout time.Duration
	// Ready, unless nil, is called once requests are received.
	Ready func()
}

// Endpoint is one verb.
type Endpoint struct {
	Verb string
	// Subject is the verb's wildcard; its last token is the tenant.
	Subject string
	// Handler gets the tenant of the subject and the body, and returns what is
	// to be encoded as JSON. A *subjects.RPCError or *subjects.FieldError goes to
	// the caller; any other error is logged and told as internal.
	Handler func(ctx context.Context, tenant string, data []byte) (any, error)
}

// Serve answers requests until ctx ends, then waits for the handlers.
func (b *Bus) Serve(ctx context.Context, service RPCService) error {
	s := &rpcServer{bus: b, ctx: ctx, timeout: service.Timeout}
	if s.timeout <= 0 {
		s.timeout = time.Minute
	}
	concurrency := service.Concurrency
	if concurrency <= 0 {
		concurrency = 64
	}
	s.slots = make(chan struct{}, concurrency)
	svc, err := micro.AddService(b.conn, micro.Config{Name: service.Name, Version: service.Version})
	if err != nil {
		return fmt.Errorf("serve %s: %w", service.Name, err)
	}
	err = s.listen(svc, service.Endpoints) //nolint:contextcheck // requests live in the service's own context
	if err == nil {
		err = b.Flush(ctx)
	}
	if err == nil {
		if service.Ready != nil {
			service.Ready()
		}
		<-ctx.Done()
	}
	stopped := svc.Stop()
	s.running.Wait()
	if err != nil {
		return fmt.Errorf("serve %s: %w", service.Name, err)
	}
	if stopped != nil && !b.conn.IsClosed() {
		return fmt.Errorf("stop %s: %w", service.Name, stopped)
	}
	return nil
}

// rpcServer hands requests to a bounded number of goroutines: the library calls
// an endpoint's handler in one goroutine, where a slow request would hold up
// every other.
type rpcServer struct {
	bus     *Bus
	ctx     context.Context //nolint:containedctx // the lifetime of the service, parent of every request
	timeout time.Duration
	slots   chan struct{}
	running sync.WaitGroup
}

func (s *rpcServer) listen(svc micro.Service, endpoints []Endpoint) error {
	for _, e := range endpoints {
		receive := micro.HandlerFunc(func(r micro.Request) { s.receive(e, r) })
		if err := svc.AddEndpoint(e.Verb, receive, micro.WithEndpointSubject(e.Subject)); err != nil {
			return fmt.Errorf("endpoint %s: %w", e.Verb, err)
		}
	}
	return nil
}

func (s *rpcServer) receive(e Endpoint, r micro.Request) {
	select {
	case s.slots <- struct{}{}:
	default:
		s.refuse(r, &subjects.RPCError{Code: subjects.CodeOverloaded, Message: "too many requests under way"})
		return
	}
	s.running.Go(func() {
		defer func() { <-s.slots }()
		s.answer(e, r)
	})
}

func (s *rpcServer) answer(e Endpoint, r micro.Request) {
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	ctx = s.bus.options.Extract(ctx, readTrace(nats.Header(r.Headers())))
	tenant := r.Subject()[strings.LastIndexByte(r.Subject(), '.')+1:]
	if !subjects.ValidToken(tenant) {
		s.refuse(r, &subjects.RPCError{Code: subjects.CodeMalformed, Message: "tenant is no token"})
		return
	}
	result, err := s.safely(ctx, e, tenant, r.Data())
	if err != nil {
		s.refuse(r, s.publicError(ctx, e, err))
		return
	}
	data, err := json.Marshal(result)
	if err != nil {
		s.refuse(r, s.publicError(ctx, e, err))
		return
	}
	if int64(len(data)) > s.bus.conn.MaxPayload() {
		s.refuse(r, &subjects.RPCError{Code: subjects.CodeTooLarge, Message: "the answer is larger than a message; ask for less"})
		return
	}
	s.reply(r, &nats.Msg{Data: data})
}

func (s *rpcServer) safely(ctx context.Context, e Endpoint, tenant string, data []byte) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.bus.log.ErrorContext(ctx, "handler panicked", "verb", e.Verb, "stack", string(debug.Stack()))
			err = &subjects.RPCError{Code: subjects.CodeInternal, Message: "the request could not be served"}
		}
	}()
	return e.Handler(ctx, tenant, data)
}

// publicError decides what a caller may know.
func (s *rpcServer) publicError(ctx context.Context, e Endpoint, err error) *subjects.RPCError {
	var known *subjects.RPCError
	if errors.As(err, &known) {
		return known
	}
	var field *subjects.FieldError
	if errors.As(err, &field) {
		return &subjects.RPCError{Code: subjects.CodeMalformed, Message: field.Error()}
	}
	s.bus.log.ErrorContext(ctx, "request failed", "verb", e.Verb, "cause", err.Error())
	return &subjects.RPCError{Code: subjects.CodeInternal, Message: "the request could not be served"}
}

// refuse answers with an error: in the headers of nats micro, and in the body
// for clients that look there.
func (s *rpcServer) refuse(r micro.Request, e *subjects.RPCError) {
	body, err := json.Marshal(e)
	if err != nil {
		s.bus.log.Warn("request was not answered", "cause", err.Error())
		return
	}
	s.reply(r, &nats.Msg{Data: body, Header: nats.Header{
		micro.ErrorHeader:     []string{e.Message},
		micro.ErrorCodeHeader: []string{e.Code},
	}})
}

// reply does not use the request's own methods: they note errors in the request
// for the library's statistics, which reads it when its handler returns, and
// that is before the answer is known.
func (s *rpcServer) reply(r micro.Request, answer *nats.Msg) {
	answer.Subject = r.Reply()
	if answer.Subject == "" {
		return // nobody waits
	}
	if err := s.bus.conn.PublishMsg(answer); err != nil {
		s.bus.log.Warn("request was not answered", "subject", r.Subject(), "cause", err.Error())
	}
}

// ErrNoService says that nobody answers on a subject right now.
var ErrNoService = errors.New("no service answers")

// Request asks and decodes the answer strictly into what into points to. A
// failure that the service reported is a *subjects.RPCError. ctx must have a
// deadline of the caller's own choice.
func (b *Bus) Request(ctx context.Context, subject string, payload, into any) error {
	data, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("request: encode: %w", err)
	}
	message := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	addTrace(message.Header, b.options.Inject(ctx))
	answer, err := b.conn.RequestMsgWithContext(ctx, message)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNoService
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("request: %w", err)
	case err != nil:
		return sendError(err)
	}
	if code := answer.Header.Get(micro.ErrorCodeHeader); code != "" {
		return &subjects.RPCError{Code: code, Message: answer.Header.Get(micro.ErrorHeader)}
	}
	if err := subjects.Decode(answer.Data, into); err != nil {
		return fmt.Errorf("request: answer: %w", err)
	}
	return nil
}
