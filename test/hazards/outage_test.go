package hazards

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolbus/toolbus/announce"
	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/policy"
	"github.com/toolbus/toolbus/services/recovery"
	"github.com/toolbus/toolbus/store/storetest"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/test/systemtest"
	"github.com/toolbus/toolbus/tool"
)

// heldBus is a bus whose publishes wait until they are let go.
type heldBus struct {
	began chan struct{}
	let   chan struct{}
}

func (h *heldBus) Publish(ctx context.Context, pubs []subjects.Publication) []error {
	select {
	case h.began <- struct{}{}:
	case <-ctx.Done():
	}
	select {
	case <-h.let:
	case <-ctx.Done():
	}
	return make([]error, len(pubs))
}

// TestHazard10_RelayHoldsNothing: while the relay publishes it holds no
// transaction and no row: the process that committed can delete what it has
// published itself, and commit more.
func TestHazard10_RelayHoldsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.propose(t, tool.NewID(), 1, once(3)...)
	held := &heldBus{began: make(chan struct{}), let: make(chan struct{})}
	relay, err := recovery.New(recovery.Options{
		Store: b.another(t).Store, Bus: held, Table: b.table, Sweep: time.Hour, Retry: time.Hour, Takeover: time.Millisecond, MaximumAttempts: 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := later(t, func() (struct{}, error) { return struct{}{}, relay.Run(ctx) })
	<-held.began
	// The other sweeps have short ones of their own; one that the relay held would
	// stay for as long as the bus does.
	b.sql.Await(t, `SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'toolbus%' AND xact_start IS NOT NULL`)
	b.mu.Lock()
	own := b.owed
	b.mu.Unlock()
	if err := b.Published(t.Context(), own); err != nil {
		t.Error(err)
	}
	if n := b.sql.Count(t, `SELECT count(*) FROM outbox`); n != 0 {
		t.Errorf("%d rows that were published are left", n)
	}
	close(held.let)
	stop()
	ended()
}

// TestHazard11_CrashBeforePublish: a process commits an admission and says
// nothing of it any more. Outcome and dispatch come by recovery.
func TestHazard11_CrashBeforePublish(t *testing.T) {
	t.Parallel()
	s := systemtest.New(t).Patient()
	s.Start(t, nil, systemtest.Core()...)
	r := s.OpenRuntime(t, "acme", nil)
	mute := storetest.OpenURL(t, s.Database, nil)
	table, err := outcome.Load()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := policy.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	session, err := mute.Session(t.Context(), "acme", r.Session, func(string) *pipeline.Catalog { return nil })
	if err != nil {
		t.Fatal(err)
	}
	admitter := pipeline.NewAdmitter(pipeline.AdmitOptions{
		Store: mute, Table: table, Profiles: map[string]*policy.Profile{"default": profile}, ApprovalExpiry: time.Hour,
	})
	p := r.Proposal(1,
		systemtest.Call("c1", "demo.echo", `{"text":"hello"}`), systemtest.Call("c2", "no.such", `{}`), systemtest.Call("c3", "demo.external_write", `{}`))
	if _, err := admitter.Admit(t.Context(), session, &p, ""); err != nil {
		t.Fatal(err)
	}
	if o := r.Outcome(t, 1, "c2"); o.Status != tool.OutcomeDenied {
		t.Errorf("the outcome: %s", o.Status)
	}
	if o := r.Outcome(t, 1, "c1"); o.Status != tool.OutcomeSucceeded {
		t.Errorf("the dispatch: %s", o.Status)
	}
	r.Approval(t, 1, "c3")
	s.SQL(t).Await(t, `SELECT count(*) = 0 FROM outbox`)
}

// TestHazard14_NoMessageID: a proposal is stored every time it is published, and
// another tenant's with the same run, step and n beside it: deduplication is the
// table's.
func TestHazard14_NoMessageID(t *testing.T) {
	t.Parallel()
	s := systemtest.New(t).Patient()
	acme := func() *systemtest.Runtime {
		s.Start(t, nil, app.Gatekeeper)
		return s.OpenRuntime(t, "acme", nil)
	}()
	globex := s.OpenRuntime(t, "globex", nil).ForRun(t, acme.Run)
	js, err := jetstream.New(s.NATS(t))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), subjects.StreamPropose)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, r := range []*systemtest.Runtime{acme, globex} {
			r.Propose(t, 1, systemtest.Call("c1", "no.such", `{}`))
		}
	}
	acme.Outcome(t, 1, "c1")
	globex.Outcome(t, 1, "c1")
	info, err := stream.Info(t.Context())
	if err != nil || info.State.LastSeq != 4 {
		t.Errorf("%d messages were stored, %v", info.State.LastSeq, err)
	}
	if n := s.SQL(t).Count(t, `SELECT count(*) FROM tool_invocations`); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// TestHazard19_DatabaseAway: while the database cannot be reached nothing is
// given up, refused or delivered again; afterwards everything is done.
func TestHazard19_DatabaseAway(t *testing.T) {
	t.Parallel()
	s := systemtest.New(t).Patient()
	p, url := newProxy(t, s.Database)
	s.Start(t, func(o *app.Options) { o.Database = url }, app.Gatekeeper, app.Executor)
	s.Start(t, nil, app.Recovery)
	r := s.OpenRuntime(t, "acme", nil)
	p.setAway(true)
	runs := make([]*systemtest.Runtime, 5)
	for i := range runs {
		runs[i] = r.NewRun(t)
		runs[i].Propose(t, 1, systemtest.Call("c1", "demo.echo", `{}`), systemtest.Call("c2", systemtest.WriteOnce, `{}`))
		runs[i].SendCommand(t, "operator", &subjects.Revoke{CommandID: fmt.Sprint("revoke-", i), Principal: "somebody", Scopes: []string{"mail.send"}})
	}
	p.awaitRefused(20)
	js, err := jetstream.New(s.NATS(t))
	if err != nil {
		t.Fatal(err)
	}
	for stream, durable := range map[string]string{subjects.StreamPropose: subjects.DurableProposals, subjects.StreamCommand: subjects.DurableCommands} {
		c, err := js.Consumer(t.Context(), stream, durable)
		if err != nil {
			t.Fatal(err)
		}
		if n := c.CachedInfo().NumRedelivered; n != 0 {
			t.Errorf("%s: %d messages were delivered again", durable, n)
		}
	}
	p.setAway(false)
	for i, run := range runs {
		for _, c := range []string{"c1", "c2"} {
			if o := run.Outcome(t, 1, c); o.Status != tool.OutcomeSucceeded {
				t.Errorf("%s: %s", c, o.Status)
			}
		}
		if got := r.Settled(t, fmt.Sprint("revoke-", i)); got.Result != "applied" {
			t.Errorf("%+v", got)
		}
	}
	sql := s.SQL(t)
	if n := sql.Count(t, `SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters", n)
	}
	if n := len(s.Effects(t)); n != len(runs) {
		t.Errorf("%d effects", n)
	}
	sql.CheckInvariants(t)
}

// TestHazard19_Poison: a proposal that breaks whoever handles it is given up on
// its sixth delivery, with a refusal and a dead letter, and holds up nobody.
func TestHazard19_Poison(t *testing.T) {
	t.Parallel()
	s := systemtest.New(t).Patient()
	s.Start(t, func(o *app.Options) {
		o.Probe = func(_ context.Context, step pipeline.Step, _ pipeline.Edge, _ tool.ID, class tool.Idempotency) {
			if step == pipeline.StepIntent && class == tool.ConditionallyIdempotent {
				panic("poison")
			}
		}
	}, systemtest.Core()...)
	r := s.OpenRuntime(t, "acme", nil)
	r.Propose(t, 1, systemtest.Call("c1", systemtest.WriteConditional, `{}`))
	other := r.NewRun(t)
	other.Propose(t, 1, systemtest.Call("c1", "demo.echo", `{}`))
	if o := other.Outcome(t, 1, "c1"); o.Status != tool.OutcomeSucceeded {
		t.Errorf("its neighbour: %s", o.Status)
	}
	r.Refusal(t, subjects.RefusedMalformed)
	sql := s.SQL(t)
	if got := systemtest.Value[string](t, sql, `SELECT reason || ' ' || deliveries || ' ' || kind FROM dead_letters`); got != "poison 6 proposal" {
		t.Errorf("dead letter %q", got)
	}
	s.AwaitIdle(t)
}

// TestHazard20_OutcomeTooLarge: an outcome that no message can hold leaves its
// structured data behind, is published, and can be asked for whole.
func TestHazard20_OutcomeTooLarge(t *testing.T) {
	t.Parallel()
	s := systemtest.New(t).Patient()
	s.Start(t, nil, systemtest.Core()...)
	r := s.OpenRuntime(t, "acme", nil)
	data := `{"data":{"a":"` + strings.Repeat("x", 600<<10) + `"}}`
	r.Propose(t, 1, systemtest.Call("c1", "demo.echo", data))
	o := r.Outcome(t, 1, "c1")
	if o.Status != tool.OutcomeSucceeded || !o.Truncated || string(o.Item.Structured) != "null" {
		t.Errorf("%s, truncated %v, structured %.40s", o.Status, o.Truncated, o.Item.Structured)
	}
	s.AwaitIdle(t)
	if n := s.SQL(t).Count(t, `SELECT count(*) FROM dead_letters`); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// TestRelayComposesTheSameBytes: what the relay says of a call is, byte for byte,
// what the process that ended it would have said.
func TestRelayComposesTheSameBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.running(t, tool.NonIdempotent, time.Minute)
	b.mark(t, c)
	b.finish(t, b.result(c, tool.OutcomeUncertain, outcome.CodeOutcomeUnknown))
	b.mu.Lock()
	own := b.owed
	b.mu.Unlock()
	said := map[string]string{}
	for _, a := range own {
		pubs, err := announce.Compose(a)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pubs {
			said[p.Subject+" "+p.ID] = string(p.Data)
		}
	}
	taken, err := b.TakeOutbox(t.Context(), 0, 100)
	if err != nil || len(taken) == 0 {
		t.Fatalf("%d entries, %v", len(taken), err)
	}
	for _, a := range taken {
		pubs, err := announce.Compose(a)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pubs {
			if p.ID != "" && said[p.Subject+" "+p.ID] != string(p.Data) {
				t.Errorf("%s %s\n%s\n%s", p.Subject, p.ID, said[p.Subject+" "+p.ID], p.Data)
			}
		}
	}
}
