package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the HTTP server. There is no write timeout for the whole answer: an
// event stream has no end, and bounds each write instead.
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = time.Minute
	answerTimeout     = 30 * time.Second
	stopTimeout       = 5 * time.Second
	maximumHeader     = 16 << 10
)

// Service is telemetry.
type Service struct {
	o    Options
	keys keyring
	hub  *hub
	// seats are taken by clients that follow, backlogs by those that read the
	// stream themselves.
	seats, backlogs chan struct{}
	// impatient says that the table could not be read when events were missing.
	impatient atomic.Bool

	ready, read chan struct{}
	opened      sync.Once

	mu      sync.Mutex
	address net.Addr
	sampled error
}

// errNotSampled is what the health check says before the first look at the
// tables.
var errNotSampled = errors.New("tables were not read yet")

// maximumBacklogs bounds how many clients read the stream themselves at a time.
const maximumBacklogs = 16

// New makes the service; [Service.Run] makes it work.
func New(o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	keys, err := newKeyring(o.Tokens)
	if err != nil {
		return nil, err
	}
	s := &Service{
		o: o, keys: keys, hub: newHub(o.History),
		seats: make(chan struct{}, o.Clients), backlogs: make(chan struct{}, maximumBacklogs),
		ready: make(chan struct{}), read: make(chan struct{}), sampled: errNotSampled,
	}
	if err := errors.Join(o.Checks.Add("telemetry.events", s.progress()), o.Checks.Add("telemetry.tables", s.tables)); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	o.Metrics.Ends(ends()...)
	return s, nil
}

// Ready is closed once the service answers and has read the stream to its end.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// Addr gives the address the service listens on; nil before it does.
func (s *Service) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// Run serves until ctx ends, and returns nil when every client was let go. The
// error is that of listening, or of serving.
func (s *Service) Run(ctx context.Context) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", s.o.Address)
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	s.mu.Lock()
	s.address = listener.Addr()
	s.mu.Unlock()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var loops sync.WaitGroup
	loops.Go(func() { s.follow(ctx) })
	loops.Go(func() { s.sample(ctx) })
	loops.Go(func() { _ = s.o.Checks.Run(ctx) }) // it has no error to give
	loops.Go(func() { s.announceReady(ctx) })
	err = s.serve(ctx, listener)
	cancel()
	loops.Wait()
	return err
}

func (s *Service) announceReady(ctx context.Context) {
	select {
	case <-s.read:
		close(s.ready)
	case <-ctx.Done():
	}
}

func (s *Service) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maximumHeader,
		ErrorLog:          slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelDebug),
		// Requests end with the service, so that event streams do not hold it up.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("telemetry: %w", err)
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		_ = server.Close() // the connections that are left are cut
	}
	<-served
	return nil
}

// Handler gives everything the service serves. Without tokens there is no API.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", s.o.Checks.Live())
	mux.Handle("GET /readyz", s.o.Checks.Readiness())
	mux.Handle("GET /metrics", s.o.Metrics.Handler())
	if len(s.keys) > 0 {
		mux.Handle("GET /v1/events", s.keys.guarded(Viewer, s.events))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		(&problem{http.StatusNotFound, "not_found", "there is nothing here"}).write(w)
	})
	return hardened(mux)
}

// hardened adds the headers that keep a browser from doing anything with an
// answer but reading it, and refuses bodies: no request here has one.
func hardened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.ContentLength != 0 {
			h.Set("Connection", "close")
			(&problem{http.StatusBadRequest, "unexpected_body", "the request must have no body"}).write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}
