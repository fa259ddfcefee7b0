package client_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/subjects/topology"
	"github.com/toolbus/toolbus/tool"
)

const narrow = `authorization { users = [ { user: acme, password: s3cret, permissions: {
	publish: ["toolbus.propose.acme.*", "toolbus.rpc.gatekeeper.*.acme"]
	subscribe: ["_INBOX_acme.>", "toolbus.outcome.*.*"] } } ] }`

// A foreign tenant is refused by the server, which tells nobody but the
// connection: whoever waits hears of it at once.
func TestForeignTenant(t *testing.T) {
	t.Parallel()
	server := serve(t, narrow)
	dial := func(o client.Options) *client.Client {
		o.URL, o.User, o.Password = server.URL(), "acme", tool.NewSecret("s3cret")
		c, err := client.Dial(within(t, 5*time.Second), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	foreign := dial(client.Options{Tenant: "rival", Actor: "acme"})
	ctx := within(t, 20*time.Second)
	run := foreign.AttachSession(tool.NewID()).NewRun()
	defer run.Close()
	_, err := run.Propose(ctx, client.Step{Calls: calls("a")})
	if !errors.Is(err, client.ErrPermission) {
		t.Errorf("proposed for a foreign tenant: %v", err)
	}
	if _, err := foreign.OutcomeGet(ctx, tool.NewID(), 0); !errors.Is(err, client.ErrPermission) {
		t.Errorf("asked for a foreign tenant: %v", err)
	}
	if _, err := foreign.EndRun(ctx, tool.NewID()); !errors.Is(err, client.ErrPermission) {
		t.Errorf("commanded for a foreign tenant: %v", err)
	}
	if err := foreign.Tail(ctx, client.TailOptions{}, func(client.Event) {}); !errors.Is(err, client.ErrPermission) {
		t.Errorf("followed a foreign tenant: %v", err)
	}
	if _, err := dial(client.Options{Tenant: "acme", InboxPrefix: "_INBOX_other"}).OutcomeGet(ctx, tool.NewID(), 0); !errors.Is(err, client.ErrPermission) {
		t.Errorf("asked with a foreign inbox: %v", err)
	}
	// The own tenant is admitted, but nobody is there.
	own := dial(client.Options{Tenant: "acme", Patience: 100 * time.Millisecond})
	if _, err := own.OutcomeGet(ctx, tool.NewID(), 0); !errors.Is(err, client.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("asked nobody: %v", err)
	}
}

func serve(t *testing.T, config string) *bus.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := bus.StartServer(within(t, 10*time.Second), bus.ServerOptions{StoreDir: t.TempDir(), ConfigFile: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	return server
}

const accounts = `accounts {
	BUS {
		jetstream: enabled
		users: [ { user: gatekeeper, password: s3cret } ]
		exports: [
			{ service: "toolbus.propose.*.>", account_token_position: 3 }
			{ service: "toolbus.rpc.gatekeeper.outcome_get.*", account_token_position: 5 }
			{ stream: "toolbus.outcome.*.>", account_token_position: 3 }
		]
	}
	acme {
		users: [ { user: acme, password: s3cret } ]
		imports: [
			{ service: { account: BUS, subject: "toolbus.propose.acme.>" } }
			{ service: { account: BUS, subject: "toolbus.rpc.gatekeeper.outcome_get.acme" } }
			{ stream: { account: BUS, subject: "toolbus.outcome.acme.>" } }
		]
	}
}`

// A tenant in an account of its own, without JetStream, proposes and is answered;
// another tenant's subjects lead nowhere from there.
func TestAcrossAccounts(t *testing.T) {
	t.Parallel()
	server := serve(t, accounts)
	password := tool.NewSecret("s3cret")
	ctx := within(t, 20*time.Second)
	b, err := bus.Connect(ctx, bus.Options{Server: server, Name: "gatekeeper", User: "gatekeeper", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Provision(ctx, topology.Build(bustest.Small())); err != nil {
		t.Fatal(err)
	}
	working, stop := context.WithCancel(ctx)
	wait, err := newGatekeeper(b).start(working)
	if err != nil {
		t.Fatal(err)
	}
	defer wait()
	defer stop()
	for tenant, want := range map[string]error{"acme": nil, "rival": client.ErrUnavailable} {
		c, err := client.Dial(ctx, client.Options{
			URL: server.URL(), User: "acme", Password: password, Tenant: tenant, Patience: 100 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		o, err := c.AttachSession(tool.NewID()).Call(ctx, "demo.echo", map[string]int{"n": 1})
		if !errors.Is(err, want) || want == nil && o.Item.Content[0].Text != `{"n":1}` {
			t.Errorf("%s: got %+v, %v", tenant, o, err)
		}
		c.Close()
	}
}

// A question whose answer was on the connection that broke is asked again on the
// next one, and not only when its time is up.
func TestQuestionOutlivesConnection(t *testing.T) {
	t.Parallel()
	first, release := make(chan struct{}), make(chan struct{})
	var attempts atomic.Int32
	w := newWorld(t, func(g *gatekeeper) {
		g.onVerb = func(string, string, []byte) (bool, any, error) {
			if attempts.Add(1) == 1 {
				close(first)
				<-release
			}
			return false, nil, nil
		}
	})
	defer close(release)
	go func() {
		<-first
		w.line.cut()
		w.line.mend()
	}()
	s, err := w.OpenSession(within(t, 30*time.Second), client.SessionOptions{
		Principal: tool.Principal{ID: "ada"}, Agent: subjects.AgentProfile{ID: "helper"},
	})
	if err != nil || s.ID().IsZero() || attempts.Load() != 2 {
		t.Errorf("%d attempts, %v", attempts.Load(), err)
	}
}

func TestDial(t *testing.T) {
	t.Parallel()
	server := serve(t, narrow)
	for name, o := range map[string]client.Options{
		"no server":      {Tenant: "acme"},
		"no tenant":      {URL: server.URL()},
		"bad actor":      {URL: server.URL(), Tenant: "acme", Actor: "a.b"},
		"bad name":       {URL: server.URL(), Tenant: "acme", Name: "a b"},
		"wrong password": {URL: server.URL(), Tenant: "acme", User: "acme", Password: tool.NewSecret("wrong")},
		"wrong token":    {URL: server.URL(), Tenant: "acme", Token: tool.NewSecret("wrong")},
		"no file":        {URL: server.URL(), Tenant: "acme", CredentialsFile: "absent"},
	} {
		if c, err := client.Dial(within(t, 10*time.Second), o); err == nil {
			c.Close()
			t.Errorf("%s: connected", name)
		}
	}
	_, err := client.Dial(within(t, 100*time.Millisecond), client.Options{URL: "nats://127.0.0.1:1", Tenant: "acme"})
	if !errors.Is(err, client.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody there: %v", err)
	}
}

// Every message carries the trace of its context.
func TestTraceTravels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	seen := make(chan string, 1)
	other := w.account.Connect(t, bus.Options{Name: "other", Extract: func(ctx context.Context, h map[string]string) context.Context {
		seen <- h["traceparent"]
		return ctx
	}})
	ctx, cancel := context.WithCancel(within(t, 10*time.Second))
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- other.Serve(ctx, bus.RPCService{
			Name: "mcpgateway", Version: "0.0.1", Ready: func() { close(ready) },
			Endpoints: []bus.Endpoint{{
				Verb: "servers_list", Subject: subjects.RPCOf(subjects.ServiceMCPGateway, "servers_list"),
				Handler: func(context.Context, string, []byte) (any, error) {
					return subjects.CommandGetRequest{CommandID: "x"}, nil
				},
			}},
		})
	}()
	<-ready
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	c := w.dial(t, client.Options{Inject: func(context.Context) map[string]string { return map[string]string{"traceparent": trace} }})
	var answer subjects.CommandGetRequest
	err := c.Request(ctx, subjects.ServiceMCPGateway, "servers_list", subjects.CommandGetRequest{}, &answer)
	if got := <-seen; err != nil || got != trace || answer.CommandID != "x" {
		t.Errorf("trace %q, answer %+v, %v", got, answer, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if c.Tenant() != "acme" {
		t.Errorf("tenant %q", c.Tenant())
	}
}

// A wrong password is a matter of permission, not of a client that was closed.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := serve(t, narrow)
	o := client.Options{URL: server.URL(), User: "acme", Password: tool.NewSecret("wrong"), Tenant: "acme", Actor: "acme"}
	_, err := client.Dial(within(t, 5*time.Second), o)
	if !errors.Is(err, client.ErrPermission) || errors.Is(err, client.ErrClosed) {
		t.Errorf("dialled with a wrong password: %v", err)
	}
}
