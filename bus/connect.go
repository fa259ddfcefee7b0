package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolbus/toolbus/subjects/topology"
	"github.com/toolbus/toolbus/tool"
)

// Errors of the connection as a whole.
var (
	// ErrDisconnected says that there is no connection at the moment.
	ErrDisconnected = errors.New("not connected to NATS")
	// ErrPermission says that the server refused an operation. Acknowledgements
	// fail in silence then, so a bus that met it is never healthy again.
	ErrPermission = errors.New("refused by the permissions of NATS")
	// ErrClosed says that the bus was closed.
	ErrClosed = errors.New("bus is closed")
)

// Options configure a connection.
type Options struct {
	// URL of the servers, comma-separated. Ignored when Server is set.
	URL string
	// Server is an embedded server to connect to without a socket.
	Server *Server
	// Name appears in the server's connection list and in the inbox prefix.
	Name string
	// User and Password, or CredentialsFile, identify the connection.
	User            string
	Password        tool.Secret
	CredentialsFile string
	// CAFile, CertFile and KeyFile are PEM files for TLS; empty for none.
	CAFile, CertFile, KeyFile string
	// InboxPrefix is where replies arrive; empty means _INBOX_<Name>. The
	// permissions of each service admit its own and no other.
	InboxPrefix string
	// Logger gets reconnects, permission errors and handler panics; nil discards.
	Logger *slog.Logger
	// MaxPending bounds the publishes that await their acknowledgement;
	// 0 means 32768.
	MaxPending int
	// AckTimeout is how long a publish waits for it; 0 means 5 s.
	AckTimeout time.Duration
	// Inject gives the trace headers of a request; Extract puts those of a
	// received request into its context. Nil carries none.
	Inject  func(context.Context) map[string]string
	Extract func(context.Context, map[string]string) context.Context
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "toolbus"
	}
	if o.InboxPrefix == "" {
		o.InboxPrefix = "_INBOX_" + o.Name
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxPending <= 0 {
		o.MaxPending = 32768
	}
	if o.AckTimeout <= 0 {
		o.AckTimeout = 5 * time.Second
	}
	if o.Inject == nil {
		o.Inject = func(context.Context) map[string]string { return nil }
	}
	if o.Extract == nil {
		o.Extract = func(ctx context.Context, _ map[string]string) context.Context { return ctx }
	}
	return o
}

// Bus is one connection to NATS. Safe for concurrent use.
type Bus struct {
	options   Options
	log       *slog.Logger
	conn      *nats.Conn
	js        jetstream.JetStream
	publisher *publisher
	consumers registry

	refused    atomic.Pointer[error]
	reconnects atomic.Int64
	closed     chan struct{} // closed by the connection's own handler
	closing    sync.Once

	mu sync.Mutex
	// changed is closed and replaced whenever the connection comes or goes.
	changed chan struct{}
}

// Connect connects and waits until the connection stands or ctx ends; ctx
// bounds the connecting only. The caller closes the bus.
func Connect(ctx context.Context, options Options) (*Bus, error) {
	b := &Bus{
		options: options.withDefaults(),
		closed:  make(chan struct{}),
		changed: make(chan struct{}),
	}
	b.log = b.options.Logger
	up := make(chan struct{}, 1)
	conn, err := nats.Connect(b.options.URL, b.natsOptions(up)...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	b.conn = conn
	if err := b.await(ctx, up); err != nil {
		conn.Close()
		<-b.closed
		return nil, err
	}
	if err := b.equip(); err != nil {
		conn.Close()
		<-b.closed
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	return b, nil
}

// equip makes what works over the connection. The connection's handlers run
// already, hence the lock.
func (b *Bus) equip() error {
	js, err := jetstream.New(b.conn)
	if err != nil {
		return err
	}
	p, err := newPublisher(b.conn, b.options)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.js, b.publisher = js, p
	return nil
}

func (b *Bus) await(ctx context.Context, up <-chan struct{}) error {
	if b.conn.IsConnected() {
		return nil
	}
	select {
	case <-up:
		return nil
	case <-b.closed:
		return fmt.Errorf("connect to NATS: %w", errors.Join(ErrClosed, b.conn.LastError()))
	case <-ctx.Done():
		return fmt.Errorf("connect to NATS: %w", ctx.Err())
	}
}

func (b *Bus) natsOptions(up chan<- struct{}) []nats.Option {
	o := b.options
	options := append(topology.Connection(o.Name, o.InboxPrefix),
		nats.ConnectHandler(func(*nats.Conn) { up <- struct{}{} }),
		nats.DisconnectErrHandler(b.onDisconnect),
		nats.ReconnectHandler(b.onReconnect),
		nats.ErrorHandler(b.onError),
		nats.ClosedHandler(func(*nats.Conn) { close(b.closed) }),
	)
	if o.Server != nil {
		options = append(options, nats.InProcessServer(o.Server.server))
	}
	if o.User != "" {
		options = append(options, nats.UserInfo(o.User, o.Password.Reveal()))
	}
	if o.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(o.CredentialsFile))
	}
	if o.CAFile != "" {
		options = append(options, nats.RootCAs(o.CAFile))
	}
	if o.CertFile != "" {
		options = append(options, nats.ClientCert(o.CertFile, o.KeyFile))
	}
	return options
}

func (b *Bus) onDisconnect(_ *nats.Conn, err error) {
	if err != nil {
		b.log.Warn("disconnected from nats", "cause", err.Error())
	}
	b.mu.Lock()
	p := b.publisher
	b.mu.Unlock()
	if p != nil {
		p.failAll()
	}
	b.signal()
}

func (b *Bus) onReconnect(*nats.Conn) {
	b.reconnects.Add(1)
	b.log.Info("reconnected to nats", "reconnects", b.reconnects.Load())
	b.signal()
}

func (b *Bus) onError(_ *nats.Conn, sub *nats.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	if errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrAuthorization) {
		refusal := fmt.Errorf("%w: %w", ErrPermission, err)
		b.refused.CompareAndSwap(nil, &refusal)
		b.log.Error("nats refused an operation", "cause", err.Error(), "subject", subject)
		return
	}
	b.log.Warn("nats reported an error", "cause", err.Error(), "subject", subject)
}

// signal wakes whoever watches the connection.
func (b *Bus) signal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}

// watch gives a channel that is closed when the connection next comes or goes.
func (b *Bus) watch() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// Healthy gives nil while the bus is connected and was never refused anything;
// else why it is not: [ErrDisconnected], [ErrPermission] or [ErrClosed].
func (b *Bus) Healthy() error {
	if refusal := b.refused.Load(); refusal != nil {
		return *refusal
	}
	if b.conn.IsClosed() {
		return ErrClosed
	}
	if !b.conn.IsConnected() {
		return ErrDisconnected
	}
	return nil
}

// Reconnects counts the reconnects so far.
func (b *Bus) Reconnects() int64 { return b.reconnects.Load() }

// Flush waits until the server has processed everything sent so far, at most 10 s.
func (b *Bus) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := b.conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// Close waits for the publishes under way, at most for the acknowledgement
// timeout, then closes the connection and waits for every goroutine of the bus.
// End the contexts of consumers and subscriptions before. Calling it again does
// nothing.
func (b *Bus) Close() {
	b.closing.Do(func() {
		b.publisher.close()
		b.conn.Close()
		<-b.closed
		b.signal()
	})
}
