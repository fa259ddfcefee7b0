package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/internal/localpg"
	"github.com/toolbus/toolbus/internal/supervise"
	"github.com/toolbus/toolbus/tool"
)

// Engines are PostgreSQL and NATS as a process found or started them.
type Engines struct {
	// Database is the address of PostgreSQL.
	Database string
	// NATS is the address of the server for other processes, with its user.
	NATS         string
	NATSUser     string
	NATSPassword tool.Secret
	// Server is the embedded server, nil when an external one is used.
	Server *bus.Server
	exited <-chan struct{}
	parts  supervise.Stack
}

// Exited is closed when the private PostgreSQL is gone, by [Engines.Close] or by
// itself; it is nil, and so never ready, when an external one is used.
func (e *Engines) Exited() <-chan struct{} { return e.exited }

// EngineOptions say what to start.
type EngineOptions struct {
	Options
	// Dir is the data directory.
	Dir string
	// NATSPort is the loopback port of the embedded server; 0 lets the system
	// choose.
	NATSPort int
	// NoFSync is for tests and benchmarks of other things.
	NoFSync bool
}

// StartEngines starts what the configuration does not name an address for: a
// private PostgreSQL cluster and an embedded NATS server under the data
// directory. Existing data is used again; a cluster that a killed process left
// running is adopted. The engines live until [Engines.Close].
func StartEngines(ctx context.Context, o EngineOptions) (*Engines, error) {
	o.withDefaults()
	e := &Engines{Database: o.Database, NATS: o.Bus.URL}
	e.parts.Logger = o.Logger
	if err := e.start(ctx, o); err != nil {
		return nil, errors.Join(err, e.Close(context.WithoutCancel(ctx)))
	}
	return e, nil
}

func (e *Engines) start(ctx context.Context, o EngineOptions) error {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil { //nolint:gosec // the account that runs PostgreSQL has to pass through
		return fmt.Errorf("data directory: %w", err)
	}
	if e.Database == "" {
		pg, err := localpg.Start(ctx, localpg.Options{Dir: filepath.Join(o.Dir, "postgres"), NoFSync: o.NoFSync, Logger: o.Logger})
		if err != nil {
			return fmt.Errorf("postgresql: %w", err)
		}
		e.parts.Push("postgresql", pg.Stop)
		e.Database, e.exited = pg.URL("postgres"), pg.Exited()
	}
	if e.NATS != "" {
		return nil
	}
	password, err := devPassword(filepath.Join(o.Dir, "nats.password"))
	if err != nil {
		return err
	}
	e.NATSUser, e.NATSPassword = "toolbus", password
	e.Server, err = bus.StartServer(ctx, bus.ServerOptions{
		StoreDir: filepath.Join(o.Dir, "nats"), Port: o.NATSPort, Logger: o.Logger,
		Users: []bus.User{{Name: e.NATSUser, Password: password}},
	})
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	e.parts.Push("nats", func(context.Context) error { e.Server.Shutdown(); return nil })
	e.NATS = e.Server.URL()
	return nil
}

// Use points options at the engines. In the process that runs the embedded
// server the connection needs no socket.
func (e *Engines) Use(o Options) Options {
	o.Database = e.Database
	o.Bus.URL, o.Bus.Server = e.NATS, e.Server
	if e.NATSUser != "" {
		o.Bus.User, o.Bus.Password = e.NATSUser, e.NATSPassword
	}
	return o
}

// Close stops the engines, the last started first.
func (e *Engines) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return e.parts.Release(ctx) //nolint:wrapcheck // each part is named
}

// devPassword reads or draws the password of the embedded server.
func devPassword(path string) (tool.Secret, error) {
	data, err := os.ReadFile(filepath.Clean(path))
	if err == nil && len(trimNewline(data)) > 0 {
		return tool.NewSecret(string(trimNewline(data))), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return tool.Secret{}, fmt.Errorf("nats password: %w", err)
	}
	drawn := drawSecret()
	if err := os.WriteFile(path, []byte(drawn+"\n"), 0o600); err != nil {
		return tool.Secret{}, fmt.Errorf("nats password: %w", err)
	}
	return tool.NewSecret(drawn), nil
}

// DevToken reads or draws the token that admits to the HTTP API of a data
// directory; it stays the same over restarts.
func DevToken(dir string) (tool.Secret, error) { return devPassword(filepath.Join(dir, "http.token")) }
