package bus_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/subjects/topology"
	"github.com/toolbus/toolbus/tool"
)

func startServer(t *testing.T, options bus.ServerOptions) *bus.Server {
	t.Helper()
	s, err := bus.StartServer(within(t, 10*time.Second), options)
	if err != nil {
		t.Fatalf("start server: %v", err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func connect(t *testing.T, options bus.Options) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(within(t, 10*time.Second), options)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(b.Close)
	return b
}

func port(t *testing.T, s *bus.Server) int {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatalf("no port in %s", s.URL())
	}
	return n
}

var owner = bus.User{Name: "owner", Password: tool.NewSecret("s3cret")}

// What is published while the server is away fails, and is not sent later behind
// the publisher's back; after the return everything works, and what was stored
// before is still there.
func TestNoPublishSurvivesItsFailure(t *testing.T) {
	t.Parallel()
	options := bus.ServerOptions{StoreDir: t.TempDir(), Users: []bus.User{owner}}
	first := startServer(t, options)
	b := connect(t, bus.Options{URL: first.URL(), Name: "e06", User: owner.Name, Password: owner.Password, AckTimeout: time.Second})
	if _, err := b.Provision(within(t, 10*time.Second), topology.Build(bustest.Small())); err != nil {
		t.Fatal(err)
	}
	publishMany(t, b, 1)
	options.Port = port(t, first)
	first.Shutdown()
	eventually(t, "noticed", func() bool { return errors.Is(b.Healthy(), bus.ErrDisconnected) })
	for range 3 {
		errs := b.Publish(within(t, 5*time.Second), []subjects.Publication{proposal(t, "{}")})
		if !errors.Is(errs[0], bus.ErrDisconnected) {
			t.Errorf("publish without a server: %v", errs[0])
		}
		if err := b.Notify("toolbus.test", nil); !errors.Is(err, bus.ErrDisconnected) {
			t.Errorf("notify without a server: %v", err)
		}
	}
	second := startServer(t, options)
	if second.URL() != first.URL() && port(t, second) != options.Port {
		t.Fatalf("restarted at %s", second.URL())
	}
	eventually(t, "reconnected", func() bool { return b.Healthy() == nil })
	publishMany(t, b, 1)
	if n := count(t, b, subjects.StreamPropose); n != 2 {
		t.Errorf("stream holds %d messages, want the 2 whose publish succeeded", n)
	}
	if b.Reconnects() == 0 {
		t.Error("the reconnect was not counted")
	}
}

// A publish whose acknowledgement the connection took with it is reported as
// unknown at once, not after the timeout.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel()
	options := bus.ServerOptions{StoreDir: t.TempDir(), Users: []bus.User{owner}}
	s := startServer(t, options)
	b := connect(t, bus.Options{URL: s.URL(), Name: "lost", User: owner.Name, Password: owner.Password, AckTimeout: time.Hour})
	silent := proposal(t, "{}")
	silent.Subject = "toolbus.silent" // a listener, but no stream: nobody acknowledges
	listener, err := b.Listen(within(t, 5*time.Second), silent.Subject)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Stop()
	result := make(chan []error, 1)
	b.PublishAsync([]subjects.Publication{silent}, func(errs []error) { result <- errs })
	if err := b.Flush(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	if errs := receive(t, result, 1)[0]; !errors.Is(errs[0], bus.ErrUnacknowledged) {
		t.Errorf("got %v", errs[0])
	}
}

func TestAckTimeout(t *testing.T) {
	t.Parallel()
	account := bustest.NewAccount(t, bustest.Small())
	b := account.Connect(t, bus.Options{Name: "patient", AckTimeout: 100 * time.Millisecond})
	silent := proposal(t, "{}")
	silent.Subject = "toolbus.silent"
	listener, err := b.Listen(within(t, 5*time.Second), silent.Subject)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Stop()
	if errs := b.Publish(within(t, 10*time.Second), []subjects.Publication{silent}); !errors.Is(errs[0], bus.ErrUnacknowledged) {
		t.Errorf("got %v", errs[0])
	}
}

func TestStrangersStayOutside(t *testing.T) {
	t.Parallel()
	s := startServer(t, bus.ServerOptions{StoreDir: t.TempDir(), Users: []bus.User{owner}, Logger: slog.New(slog.DiscardHandler)})
	for name, user := range map[string]bus.User{
		"nobody":         {},
		"unknown":        {Name: "mallory", Password: owner.Password},
		"wrong password": {Name: owner.Name, Password: tool.NewSecret("guess")},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		b, err := bus.Connect(ctx, bus.Options{URL: s.URL(), User: user.Name, Password: user.Password})
		cancel()
		if err == nil {
			b.Close()
			t.Errorf("%s was let in", name)
		}
	}
	if err := s.AddUser(owner); err == nil {
		t.Error("a second user of the same name was added")
	}
	if err := s.AddUser(bus.User{Name: "open"}); err == nil {
		t.Error("a user without password was added")
	}
}

func TestServerWithoutPort(t *testing.T) {
	t.Parallel()
	s := startServer(t, bus.ServerOptions{StoreDir: t.TempDir(), Users: []bus.User{owner}, Port: -1})
	if s.URL() != "" {
		t.Errorf("listens at %s", s.URL())
	}
	b := connect(t, bus.Options{Server: s, User: owner.Name, Password: owner.Password})
	if err := b.Healthy(); err != nil {
		t.Error(err)
	}
}

func TestServerListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	s := startServer(t, bus.ServerOptions{StoreDir: t.TempDir(), Users: []bus.User{owner}})
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
		t.Errorf("listens on %s", u.Host)
	}
}

// A permission error makes the bus unhealthy for good: acknowledgements may be
// failing in silence.
func TestPermissionErrorIsNotHealed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "nats.conf")
	config := `authorization { users = [ { user: owner, password: s3cret,
		permissions: { publish: ["allowed", "$JS.API.>"], subscribe: ["_INBOX_own.>"] } } ] }`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, bus.ServerOptions{StoreDir: t.TempDir(), ConfigFile: file})
	b := connect(t, bus.Options{URL: s.URL(), Name: "own", User: owner.Name, Password: owner.Password})
	if err := b.Notify("allowed", nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Flush(within(t, 5*time.Second)); err != nil || b.Healthy() != nil {
		t.Fatalf("flush: %v, healthy: %v", err, b.Healthy())
	}
	if err := b.Notify("forbidden", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "unhealthy", func() bool { return errors.Is(b.Healthy(), bus.ErrPermission) })
	if err := b.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "reconnected", func() bool { return b.Reconnects() == 1 })
	if err := b.Healthy(); !errors.Is(err, bus.ErrPermission) {
		t.Errorf("a reconnect healed it: %v", err)
	}
	if _, err := bus.StartServer(t.Context(), bus.ServerOptions{ConfigFile: file, Users: []bus.User{owner}}); err == nil {
		t.Error("users in two places were accepted")
	}
	if _, err := bus.StartServer(t.Context(), bus.ServerOptions{ConfigFile: file + ".missing"}); err == nil {
		t.Error("a missing configuration was accepted")
	}
}

func TestConnectionOptions(t *testing.T) {
	t.Parallel()
	b := bustest.NewAccount(t, bustest.Small()).Connect(t, bus.Options{Name: "gatekeeper"})
	o := b.Conn().Opts
	if o.ReconnectBufSize != -1 || o.MaxReconnect != -1 || !o.RetryOnFailedConnect || o.PingInterval != 10*time.Second ||
		o.MaxPingsOut != 2 || o.InboxPrefix != "_INBOX_gatekeeper" || o.AsyncErrorCB == nil || o.ClosedCB == nil {
		t.Errorf("options: %+v", o)
	}
	if got := nats.NewInbox(); got == b.Conn().NewInbox() {
		t.Error("the inbox is not the connection's own")
	}
}

func TestConnectEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := bus.Connect(ctx, bus.Options{URL: "nats://127.0.0.1:1"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := bus.Connect(t.Context(), bus.Options{URL: "nats://[::bad"}); err == nil {
		t.Error("a broken URL connected")
	}
}

func TestAccountsAreApart(t *testing.T) {
	t.Parallel()
	one, two := bustest.New(t), bustest.New(t)
	publishMany(t, one, 3)
	if n := count(t, two, subjects.StreamPropose); n != 0 {
		t.Errorf("a foreign account sees %d messages", n)
	}
}
