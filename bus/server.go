package bus

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/toolbus/toolbus/tool"
)

// User is who may connect to an embedded server.
type User struct {
	Name     string
	Password tool.Secret
	// Account isolates its users from those of other accounts, streams
	// included; empty means the default account.
	Account string
}

// ServerOptions configure an embedded server.
type ServerOptions struct {
	// StoreDir holds the streams.
	StoreDir string
	// Port on the loopback interface; 0 lets the system choose, -1 opens none.
	Port int
	// Users may connect, nobody else: the loopback interface is shared with
	// every other user of the machine.
	Users []User
	// SyncInterval is how often written messages are forced to the disk; 0 means
	// one second. SyncAlways forces each write.
	SyncInterval time.Duration
	SyncAlways   bool
	// MaxStore bounds the disk space of all streams; 0 means 1 TiB, which leaves
	// the bounds to the streams themselves.
	MaxStore int64
	// ConfigFile, unless empty, is a server configuration that decides accounts,
	// users and permissions; Users must be empty then.
	ConfigFile string
	// Logger gets the server's warnings and errors; nil discards them.
	Logger *slog.Logger
}

// Server is an embedded NATS server with JetStream.
type Server struct {
	server *server.Server

	mu    sync.Mutex
	users map[string]account
}

type account struct {
	digest  [sha256.Size]byte
	account *server.Account
}

// StartServer starts a server and waits until it accepts connections, or ctx
// ends. The caller shuts it down.
func StartServer(ctx context.Context, options ServerOptions) (*Server, error) {
	s := &Server{users: map[string]account{}}
	config, err := s.config(options)
	if err != nil {
		return nil, err
	}
	s.server, err = server.NewServer(config)
	if err != nil {
		return nil, fmt.Errorf("embedded NATS: %w", err)
	}
	if options.Logger != nil {
		s.server.SetLoggerV2(serverLog{options.Logger}, false, false, false)
	}
	s.server.Start()
	if err := s.ready(ctx); err != nil {
		s.Shutdown()
		return nil, err
	}
	for _, user := range options.Users {
		if err := s.AddUser(user); err != nil {
			s.Shutdown()
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) config(options ServerOptions) (*server.Options, error) {
	config := &server.Options{}
	if options.ConfigFile != "" {
		if len(options.Users) > 0 {
			return nil, errors.New("embedded NATS: users stand in the configuration file or in the options, not in both")
		}
		loaded, err := server.ProcessConfigFile(options.ConfigFile)
		if err != nil {
			return nil, fmt.Errorf("embedded NATS: %w", err)
		}
		config = loaded
	} else {
		config.CustomClientAuthentication = s
	}
	config.ServerName = "toolbus"
	config.Host, config.Port = "127.0.0.1", options.Port
	if options.Port == 0 {
		config.Port = server.RANDOM_PORT
	}
	if options.Port < 0 {
		config.Port, config.DontListen = 0, true
	}
	config.NoSigs, config.NoLog = true, options.Logger == nil
	config.JetStream, config.StoreDir = true, options.StoreDir
	config.SyncInterval, config.SyncAlways = options.SyncInterval, options.SyncAlways
	if config.SyncInterval == 0 {
		config.SyncInterval = time.Second
	}
	config.JetStreamMaxStore = options.MaxStore
	if config.JetStreamMaxStore == 0 {
		config.JetStreamMaxStore = 1 << 40
	}
	return config, nil
}

func (s *Server) ready(ctx context.Context) error {
	for !s.server.ReadyForConnections(10 * time.Millisecond) {
		if ctx.Err() != nil {
			return fmt.Errorf("embedded NATS is not ready: %w", ctx.Err())
		}
		if !s.server.Running() {
			return errors.New("embedded NATS stopped while starting")
		}
	}
	return nil
}

// AddUser lets another user in, with an account of its own if it names a new
// one. The name must be new.
func (s *Server) AddUser(user User) error {
	target := s.server.GlobalAccount()
	if user.Account != "" {
		target, _ = s.server.LookupOrRegisterAccount(user.Account)
	}
	if !target.JetStreamEnabled() {
		if err := target.EnableJetStream(nil, nil); err != nil {
			return fmt.Errorf("embedded NATS: account: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.users[user.Name]; known || user.Name == "" || user.Password.Empty() {
		return errors.New("embedded NATS: a user needs a name of its own and a password")
	}
	s.users[user.Name] = account{digest: sha256.Sum256([]byte(user.Password.Reveal())), account: target}
	return nil
}

// RemoveUser shuts a user out of new connections and deletes the streams of its
// account.
func (s *Server) RemoveUser(name string) error {
	s.mu.Lock()
	entry, known := s.users[name]
	delete(s.users, name)
	s.mu.Unlock()
	if !known {
		return nil
	}
	if err := entry.account.DisableJetStream(); err != nil {
		return fmt.Errorf("embedded NATS: account: %w", err)
	}
	return nil
}

// Check implements the server's authentication.
func (s *Server) Check(client server.ClientAuthentication) bool {
	options := client.GetOpts()
	digest := sha256.Sum256([]byte(options.Password))
	s.mu.Lock()
	entry, known := s.users[options.Username]
	s.mu.Unlock()
	if !known || subtle.ConstantTimeCompare(digest[:], entry.digest[:]) != 1 {
		return false
	}
	client.RegisterUser(&server.User{Username: options.Username, Account: entry.account})
	return true
}

// URL is where clients connect over TCP, empty without a port.
func (s *Server) URL() string {
	addr, ok := s.server.Addr().(*net.TCPAddr)
	if !ok {
		return ""
	}
	return "nats://" + addr.String()
}

// Shutdown stops the server and waits until it has stopped.
func (s *Server) Shutdown() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

// serverLog passes what an operator should know.
type serverLog struct{ log *slog.Logger }

// Noticef drops what is no problem.
func (serverLog) Noticef(string, ...any) {}

// Warnf logs a warning.
func (l serverLog) Warnf(format string, v ...any) {
	l.log.Warn("nats server", "detail", fmt.Sprintf(format, v...))
}

// Fatalf logs an error; the process goes on.
func (l serverLog) Fatalf(format string, v ...any) { l.Errorf(format, v...) }

// Errorf logs an error.
func (l serverLog) Errorf(format string, v ...any) {
	l.log.Error("nats server", "detail", fmt.Sprintf(format, v...))
}

// Debugf drops details.
func (serverLog) Debugf(string, ...any) {}

// Tracef drops traces.
func (serverLog) Tracef(string, ...any) {}

// InProcessConn gives a connection to the server without a socket; it makes the
// server usable by a client of the same process.
func (s *Server) InProcessConn() (net.Conn, error) { return s.server.InProcessConn() } //nolint:wrapcheck // the client words it
