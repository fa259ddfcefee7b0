// Package systemtest runs toolbus for a test: the real services on a database
// and a NATS account of the test's own. The services run in the test's process
// or, where a test stops and kills them, in child processes that are the test
// binary executed again.
//
// A package that spawns processes hands its TestMain over:
//
//	func TestMain(m *testing.M) { os.Exit(systemtest.Main(m, kits)) }
package systemtest

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/config"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/store/storetest"
	"github.com/toolbus/toolbus/tool"
)

// System is one installation.
type System struct {
	// Database is the address of its database, Account its part of NATS.
	Database string
	Account  *bustest.Account
	// Dir is the data directory; Sink is where the demo tools that write leave
	// their effects.
	Dir  string
	Sink string
	// Config is what its nodes run with.
	Config config.Config
}

// New makes an installation without services. Leases are short and sweeps
// frequent, so that recovery happens while a test watches.
func New(t testing.TB) *System {
	t.Helper()
	c := config.Default()
	c.Lease.Seconds, c.Recovery.SweepSeconds, c.Dispatch.RetrySeconds, c.Outbox.TakeoverSeconds = 2, 0.1, 0.5, 0.5
	c.Database.Connections = 2
	dir := t.TempDir()
	return &System{
		Database: storetest.URL(t), Account: bustest.NewAccount(t, bustest.Small()), Dir: dir,
		Sink: filepath.Join(dir, "effects"), Config: c,
	}
}

// Patient gives the installation leases that no slow machine outlasts, for tests
// that recovery has no part in.
func (s *System) Patient() *System {
	s.Config.Lease.Seconds = 60
	return s
}

// Options gives what a node of the installation is made of; it has the tools of
// [WriteTools] beside the builtins.
func (s *System) Options() app.Options {
	return app.Options{
		Config: s.Config, Logger: slog.New(slog.DiscardHandler), Database: s.Database,
		Bus:      bus.Options{Server: s.Account.Server, User: s.Account.User.Name, Password: s.Account.User.Password, Name: "node"},
		DataDir:  s.Dir,
		DemoSink: s.Sink, Tools: WriteTools(s.Sink), Topology: bustest.Small(), DrainTimeout: 5 * time.Second,
	}
}

// Start runs services in this process until the test ends. change, unless nil,
// adjusts the options.
func (s *System) Start(t testing.TB, change func(*app.Options), services ...app.Service) *app.Node {
	t.Helper()
	n, _ := s.StartStoppable(t, change, services...)
	return n
}

// StartStoppable is [System.Start] for services that the test stops itself: the
// second result stops them, waits, and may be called again.
func (s *System) StartStoppable(t testing.TB, change func(*app.Options), services ...app.Service) (*app.Node, func()) {
	t.Helper()
	o := s.Options()
	if change != nil {
		change(&o)
	}
	n, err := app.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open node: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, ended := make(chan struct{}), make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		failed = n.Run(ctx, func() { close(ready) }, services...)
	}()
	stop := func() {
		if ctx.Err() != nil {
			return
		}
		cancel()
		<-ended
		if failed != nil {
			t.Errorf("node: %v", failed)
		}
		if err := n.Close(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("close node: %v", err)
		}
	}
	t.Cleanup(stop)
	select {
	case <-ready:
	case <-ended:
		t.Fatalf("node ended: %v", failed)
	case <-time.After(time.Minute):
		t.Fatal("node is not ready")
	}
	return n, stop
}

// Core are the services that carry calls.
func Core() []app.Service { return []app.Service{app.Gatekeeper, app.Executor, app.Recovery} }

// Probe adapts a function to the probe of a node.
func Probe(f func(step pipeline.Step, edge pipeline.Edge, id tool.ID)) pipeline.Probe {
	return func(_ context.Context, step pipeline.Step, edge pipeline.Edge, id tool.ID, _ tool.Idempotency) {
		f(step, edge, id)
	}
}
