package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is a way to the server that tests can cut.
type line struct {
	address string

	mu   sync.Mutex
	last net.Conn
	down bool
}

// InProcessConn implements [client.InProcess].
func (l *line) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, errors.New("the line is down")
	}
	conn, err := net.Dial("tcp", l.address)
	l.last = conn
	return conn, err
}

// cut breaks the connection; mend lets the client connect again.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	l.last.Close()
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// world is a bus with a gatekeeper and a client of the tenant acme.
type world struct {
	*client.Client
	gate    *gatekeeper
	account *bustest.Account
	line    *line
}

// newWorld starts one; prepare, unless nil, sets the gatekeeper's hooks.
func newWorld(t *testing.T, prepare func(*gatekeeper)) *world {
	t.Helper()
	w := &world{account: bustest.NewAccount(t, bustest.Small())}
	w.gate = newGatekeeper(w.account.Connect(t, bus.Options{Name: "gatekeeper"}))
	if prepare != nil {
		prepare(w.gate)
	}
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := w.gate.start(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); wait() })
	w.line = &line{address: strings.TrimPrefix(w.account.Server.URL(), "nats://")}
	w.Client = w.dial(t, client.Options{InProcess: w.line})
	return w
}

func (w *world) dial(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	if o.InProcess == nil {
		o.URL = w.account.Server.URL()
	}
	o.User, o.Password = w.account.User.Name, w.account.User.Password
	if o.Tenant == "" {
		o.Tenant = "acme"
	}
	o.Actor = "tester"
	c, err := client.Dial(within(t, 10*time.Second), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (w *world) session(t *testing.T) *client.Session {
	t.Helper()
	s, err := w.OpenSession(within(t, 10*time.Second), client.SessionOptions{
		Principal: tool.Principal{ID: "ada"}, Agent: subjects.AgentProfile{ID: "helper", Tools: []string{"*"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (w *world) run(t *testing.T) *client.Run {
	t.Helper()
	r := w.session(t).NewRun()
	t.Cleanup(r.Close)
	return r
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func calls(ids ...string) []subjects.Call {
	out := make([]subjects.Call, len(ids))
	for i, id := range ids {
		out[i] = subjects.Call{CallID: id, Name: "demo.echo"}
	}
	return out
}

func callIDs(outcomes []subjects.Outcome) string {
	ids := make([]string, len(outcomes))
	for i := range outcomes {
		ids[i] = outcomes[i].CallID
	}
	return strings.Join(ids, " ")
}
