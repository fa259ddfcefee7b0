package hazards

import (
	"testing"
	"time"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// pair is a running call of each of two tenants.
type pair struct{ acme, globex *pipeline.Claim }

func (b *bench) pair(t *testing.T) pair {
	t.Helper()
	globex := &bench{Store: b.Store, url: b.url, sql: b.sql, table: b.table, session: b.open(t, "globex")}
	return pair{b.running(t, tool.NonIdempotent, time.Hour), globex.running(t, tool.NonIdempotent, time.Hour)}
}

// swapped gives the calls with their tenants exchanged.
func (p pair) swapped() pair {
	a, g := *p.acme, *p.globex
	a.TenantID, g.TenantID = "globex", "acme"
	return pair{&a, &g}
}

// TestHazard24_TenantsInsideABatch: in one flush of two tenants an operation that
// names the other's row finds no row, whatever the row's id; the operations
// beside it are written.
func TestHazard24_TenantsInsideABatch(t *testing.T) {
	t.Parallel()
	t.Run("mark", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		right, p := b.pair(t), b.pair(t)
		wrong := p.swapped()
		plug := b.running(t, tool.Idempotent, time.Hour)
		all := []*pipeline.Claim{right.acme, wrong.acme, right.globex, wrong.globex}
		verdicts := make([]pipeline.MarkVerdict, len(all))
		errs := plugged(t, b, "toolbus mark", plug.ID, func() { b.mark(t, plug) }, len(all), func(i int) (err error) {
			verdicts[i], err = b.Mark(t.Context(), markOf(all[i]))
			return err
		})
		for i, v := range verdicts {
			if errs[i] != nil || (v.Code == pipeline.Fenced) != (i%2 == 1) {
				t.Errorf("%d: %+v %v", i, v, errs[i])
			}
		}
		if n := b.sql.Count(t, `SELECT count(*) FROM tool_invocations WHERE id = ANY ($1) AND effect_sent_at IS NOT NULL`, []tool.ID{p.acme.ID, p.globex.ID}); n != 0 {
			t.Errorf("%d rows of strangers were marked", n)
		}
	})
	t.Run("end", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		right, p := b.pair(t), b.pair(t)
		wrong := p.swapped()
		plug := b.running(t, tool.Idempotent, time.Hour)
		all := []*pipeline.Claim{right.acme, wrong.acme, right.globex, wrong.globex}
		errs := plugged(t, b, "toolbus end", plug.ID, func() { b.finish(t, b.result(plug, tool.OutcomeSucceeded, "")) }, len(all), func(i int) error {
			v, err := b.End(t.Context(), b.result(all[i], tool.OutcomeSucceeded, ""))
			if v.Written != (i%2 == 0) {
				t.Errorf("%d: %+v", i, v)
			}
			return err
		})
		for i, err := range errs {
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		if n := b.sql.Count(t, `SELECT count(*) FROM tool_invocations WHERE id = ANY ($1) AND status = 'running'`, []tool.ID{p.acme.ID, p.globex.ID}); n != 2 {
			t.Errorf("%d rows of strangers are as they were", n)
		}
		if n := b.sql.Count(t, `SELECT count(*) FROM late_results`); n != 0 {
			t.Errorf("%d results of strangers were kept", n)
		}
	})
	t.Run("heartbeat", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		right := b.pair(t)
		wrong := b.pair(t).swapped()
		var beats []pipeline.Heartbeat
		for _, c := range []*pipeline.Claim{right.acme, wrong.acme, right.globex, wrong.globex} {
			beats = append(beats, pipeline.Heartbeat{Tenant: c.TenantID, ID: c.ID, Attempt: c.Attempt, Claim: c.ClaimID})
		}
		got, err := b.Heartbeat(t.Context(), beats, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			if v.Held != (i%2 == 0) {
				t.Errorf("%d: %+v", i, v)
			}
		}
	})
	t.Run("claim", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		globex := &bench{Store: b.Store, url: b.url, sql: b.sql, table: b.table, session: b.open(t, "globex")}
		var hints []pipeline.Hint
		for _, n := range []int{1, 3} { // a call, and a batch
			for _, of := range []*bench{b, globex} {
				wrong := hintFor(&of.propose(t, tool.NewID(), 1, once(n)...)[0])
				wrong.Tenant = map[string]string{"acme": "globex", "globex": "acme"}[wrong.Tenant]
				hints = append(hints, wrong, hintFor(&of.propose(t, tool.NewID(), 1, once(n)...)[0]))
			}
		}
		got := b.take(t, time.Minute, hints...)
		if len(got) != 4 {
			t.Errorf("%d claims", len(got))
		}
		for _, c := range got {
			if h := hintFor(&c.Invocation); h != hints[1] && h != hints[3] && h != hints[5] && h != hints[7] {
				t.Errorf("claimed %s of %s", c.ID, c.TenantID)
			}
		}
	})
	t.Run("admit", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		globex := b.open(t, "globex")
		theirs := b.admission(globex, tool.NewID(), 1, once(1)...)
		b.admit(t, theirs)
		a := b.admission(b.session, tool.NewID(), 1, once(1)...)
		a.SessionID = globex.ID
		if r := b.admit(t, a); len(r.Insert) != 0 || len(r.Refusals) != 1 {
			t.Errorf("a session of another tenant: %+v", r)
		}
		same := b.admission(b.session, theirs.RunID, 1, once(1)...)
		if r := b.admit(t, same); len(r.Insert) != 1 || len(r.Answer) != 0 {
			t.Errorf("a run of another tenant is met: %+v", r)
		}
	})
	t.Run("commands", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		p := b.pair(t)
		m := func(id string) pipeline.CommandMeta {
			return pipeline.CommandMeta{Tenant: "globex", ID: id, Kind: "x", Actor: "stranger"}
		}
		results := map[string]func() (pipeline.CommandResult, error){
			"cancel": func() (pipeline.CommandResult, error) {
				return b.EndRun(t.Context(), m("1"), p.acme.RunID, pipeline.RunCancelled, "", "tool.run_cancelled", b.settle)
			},
			"close": func() (pipeline.CommandResult, error) { return b.CloseSession(t.Context(), m("2"), p.acme.SessionID) },
			"review": func() (pipeline.CommandResult, error) {
				return b.Review(t.Context(), m("3"), p.acme.ID, "happened", "")
			},
			"resume": func() (pipeline.CommandResult, error) { return b.Resume(t.Context(), m("4"), p.acme.ID, []byte(`"x"`)) },
		}
		for name, do := range results {
			if got, err := do(); err != nil || got.Result != "refused" {
				t.Errorf("%s: %+v %v", name, got, err)
			}
		}
		if v := b.mark(t, p.acme); v.Code != "" {
			t.Errorf("the call was touched: %+v", v)
		}
	})
}

// TestHazard30_RevokedPrincipal: what is taken from a principal is taken in every
// session, and no watermark that starts afterwards is set.
func TestHazard30_RevokedPrincipal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, bare := b.running(t, tool.NonIdempotent, time.Minute), b.running(t, tool.NonIdempotent, time.Minute)
	again := b.running(t, tool.Idempotent, time.Minute)
	scoped := markOf(again)
	scoped.Scopes = []string{"mail.send"}
	if v, err := b.Mark(t.Context(), scoped); err != nil || v.Code != "" {
		t.Fatalf("%+v %v", v, err)
	}
	m := pipeline.CommandMeta{Tenant: "acme", ID: "revoke-1", Kind: "revoke", Actor: "operator"}
	if got, err := b.Revoke(t.Context(), m, "p", []string{"mail.send"}); err != nil || got.Result != "applied" {
		t.Fatalf("%+v %v", got, err)
	}
	asked := markOf(c)
	asked.Scopes = []string{"calendar.read", "mail.send"}
	if v, err := b.Mark(t.Context(), asked); err != nil || v.Code != "policy.scope.missing" || v.Earlier {
		t.Errorf("nothing sent: %+v %v", v, err)
	}
	if v, err := b.Mark(t.Context(), scoped); err != nil || v.Code != "policy.scope.missing" || !v.Earlier {
		t.Errorf("an earlier attempt sent something: %+v %v", v, err)
	}
	if v := b.mark(t, bare); v.Code != "" {
		t.Errorf("a tool that needs no scope: %+v", v)
	}
	if row := b.row(t, c.ID); row.EffectSent() {
		t.Error("the watermark was set all the same")
	}
}
