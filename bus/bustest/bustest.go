// Package bustest gives tests a bus: an account of its own on a server that all
// tests of the process share, with the whole topology provisioned.
package bustest

import (
	"context"
	"crypto/rand"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/subjects/topology"
	"github.com/toolbus/toolbus/tool"
)

// shared is the server of the process. It runs while a test uses it.
var shared struct {
	sync.Mutex
	server *bus.Server
	dir    string
	users  int
}

// Account is an account on the shared server.
type Account struct {
	Server *bus.Server
	User   bus.User
	// Topology is what is provisioned in it.
	Topology topology.Topology
}

// New gives a connected bus in an account of its own, with the topology of
// [Small] provisioned. Both end with the test.
func New(tb testing.TB) *bus.Bus {
	tb.Helper()
	return NewAccount(tb, Small()).Connect(tb, bus.Options{Name: "test"})
}

// Small are parameters that let many accounts share a disk.
func Small() topology.Params {
	return topology.Params{WorkBytes: 64 << 20, HistoryBytes: 64 << 20}
}

// NewAccount gives an account with the topology of params provisioned.
func NewAccount(tb testing.TB, params topology.Params) *Account {
	tb.Helper()
	a := &Account{Server: acquire(tb), Topology: topology.Build(params)}
	name := "test_" + rand.Text()
	a.User = bus.User{Name: name, Password: tool.NewSecret(rand.Text()), Account: name}
	if err := a.Server.AddUser(a.User); err != nil {
		tb.Fatalf("add user: %v", err)
	}
	tb.Cleanup(func() {
		if err := a.Server.RemoveUser(name); err != nil {
			tb.Errorf("remove user: %v", err)
		}
	})
	a.Provision(tb)
	return a
}

// Provision provisions the account's topology again.
func (a *Account) Provision(tb testing.TB) {
	tb.Helper()
	b := a.open(tb, bus.Options{Name: "provisioner"})
	defer b.Close()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	if _, err := b.Provision(ctx, a.Topology); err != nil {
		tb.Fatalf("provision: %v", err)
	}
}

// Connect connects to the account, in this process, until the test ends.
func (a *Account) Connect(tb testing.TB, options bus.Options) *bus.Bus {
	tb.Helper()
	b := a.open(tb, options)
	tb.Cleanup(b.Close)
	return b
}

func (a *Account) open(tb testing.TB, options bus.Options) *bus.Bus {
	tb.Helper()
	options.Server, options.User, options.Password = a.Server, a.User.Name, a.User.Password
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	b, err := bus.Connect(ctx, options)
	if err != nil {
		tb.Fatalf("connect: %v", err)
	}
	return b
}

// acquire gives the shared server and lets go of it when the test ends; the last
// test to end stops it.
func acquire(tb testing.TB) *bus.Server {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		start(tb)
	}
	shared.users++
	tb.Cleanup(func() {
		shared.Lock()
		defer shared.Unlock()
		shared.users--
		if shared.users > 0 {
			return
		}
		shared.server.Shutdown()
		shared.server = nil
		if err := os.RemoveAll(shared.dir); err != nil {
			tb.Errorf("remove the streams: %v", err)
		}
	})
	return shared.server
}

func start(tb testing.TB) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "toolbus-nats-") //nolint:usetesting // outlives the test that starts it
	if err != nil {
		tb.Fatalf("directory for the streams: %v", err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 10*time.Second)
	defer cancel()
	server, err := bus.StartServer(ctx, bus.ServerOptions{StoreDir: dir})
	if err != nil {
		tb.Fatalf("start the server: %v", err)
	}
	shared.server, shared.dir = server, dir
}
