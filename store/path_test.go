package store_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/toolbus/toolbus/canonical"
	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/store"
	"github.com/toolbus/toolbus/store/storetest"
	"github.com/toolbus/toolbus/tool"
)

// sink collects announcements.
type sink struct {
	mu  sync.Mutex
	all []pipeline.Announcement
}

func (s *sink) add(a pipeline.Announcement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, a)
}

func (s *sink) notices(kind pipeline.NoticeKind) []pipeline.Notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []pipeline.Notice
	for _, a := range s.all {
		for _, n := range a.Notices {
			if n.Kind == kind {
				out = append(out, n)
			}
		}
	}
	return out
}

func table(t testing.TB) *outcome.Table {
	t.Helper()
	tab, err := outcome.Load()
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func session(t testing.TB, s *store.Store, tenant string) *pipeline.Session {
	t.Helper()
	pin, err := registry.NewPin([]tool.Spec{{
		Name: "demo.echo", Version: "1", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`),
		SideEffect: tool.EffectNone, Risk: tool.RiskLow, Idempotency: tool.ReadOnly, TimeoutSeconds: 5, MaximumOutputBytes: 4096,
		Kind: tool.Capability, TargetKind: tool.InProcess, OutputTrust: tool.InternalTool, Source: tool.Builtin,
	}})
	if err != nil {
		t.Fatal(err)
	}
	n := &pipeline.Session{
		TenantID: tenant, ID: tool.NewID(), RequestID: tool.NewID().String(), Principal: tool.Principal{ID: "p", Interactive: true},
		AgentID: "a", AgentTools: []string{"*"}, Profile: "default", RunDeadline: time.Hour, Catalog: pipeline.NewCatalog(pin),
	}
	id, err := s.OpenSession(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	n.ID = id
	return n
}

// admission makes calls of a class, one Judged per argument text.
func admission(t testing.TB, n *pipeline.Session, run tool.ID, step int, class tool.Idempotency, args ...string) *pipeline.Admission {
	t.Helper()
	tab := table(t)
	a := &pipeline.Admission{
		Tenant: n.TenantID, SessionID: n.ID, RunID: run, Step: step, Principal: n.Principal, ApprovalExpiry: time.Hour,
		Settle: func(row *pipeline.Invocation, e pipeline.End) pipeline.Settlement {
			return pipeline.Settle(tab, row.ToolName, e)
		},
	}
	if len(args) > 1 {
		a.Group = tool.NewID()
	}
	for i, arg := range args {
		sum := sha256.Sum256([]byte(arg))
		row := pipeline.Invocation{
			TenantID: n.TenantID, ID: tool.NewID(), SessionID: n.ID, RunID: run, Step: step, CallID: "c" + string(rune('a'+i)),
			ToolName: "demo.write", ToolVersion: "1", Source: tool.Builtin, Target: tool.InProcess, SideEffect: tool.ExternalWrite, Class: class,
			Arguments: []byte(`{"a":"` + arg + `"}`), ArgumentsHash: hex.EncodeToString(sum[:]), OriginTrust: tool.User, Attempt: 1,
		}
		row.Key = canonical.Key(canonical.KeyInput{
			RunID: run, Step: step, CallID: row.CallID, ToolName: row.ToolName, ToolVersion: row.ToolVersion, ArgumentsHash: row.ArgumentsHash,
		})
		a.Calls = append(a.Calls, pipeline.Judged{Row: row, Timeout: time.Second})
	}
	return a
}

func hintOf(n pipeline.Notice) pipeline.Hint {
	if n.Call.Group.IsZero() {
		return pipeline.Hint{Tenant: n.Call.TenantID, Call: n.Call.ID}
	}
	return pipeline.Hint{Tenant: n.Call.TenantID, Batch: n.Call.Group}
}

func claim(t testing.TB, s *store.Store, lease time.Duration, hints ...pipeline.Hint) []pipeline.Claim {
	t.Helper()
	got, err := s.Claim(t.Context(), &pipeline.ClaimRequest{
		Hints: hints, ID: tool.NewID(), Owner: "test", Lease: lease, Window: 8, MaximumAttempts: 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func ending(t testing.TB, c *pipeline.Claim, status tool.OutcomeStatus, code string) *pipeline.Ending {
	t.Helper()
	st := pipeline.Settle(table(t), c.ToolName, pipeline.End{Outcome: status, Reason: code})
	return &pipeline.Ending{Row: &c.Invocation, Settlement: st, Expect: tool.Running, Attempt: c.Attempt, Claim: c.ClaimID}
}

func TestCallPath(t *testing.T) {
	t.Parallel()
	out := &sink{}
	s := storetest.Open(t, out.add)
	n := session(t, s, "acme")
	a := admission(t, n, tool.NewID(), 1, tool.NonIdempotent, "x")
	r, err := s.Admit(t.Context(), a)
	if err != nil || len(r.Insert) != 1 || r.Insert[0].Status != tool.Authorized {
		t.Fatalf("admit: %v %+v", err, r)
	}
	hints := out.notices(pipeline.NoticeHint)
	if len(hints) != 1 {
		t.Fatalf("hints: %d", len(hints))
	}
	got := claim(t, s, time.Minute, hintOf(hints[0]))
	if len(got) != 1 || got[0].Over != "" || got[0].Attempt != 1 || got[0].Status != tool.Running {
		t.Fatalf("claim: %+v", got)
	}
	if again := claim(t, s, time.Minute, hintOf(hints[0])); len(again) != 0 {
		t.Fatalf("claimed twice: %+v", again)
	}
	c := &got[0]
	m, err := s.Mark(t.Context(), &pipeline.Mark{Tenant: "acme", ID: c.ID, Attempt: 1, Claim: c.ClaimID})
	if err != nil || m.Code != "" || m.SentAt.IsZero() {
		t.Fatalf("mark: %v %+v", err, m)
	}
	beats, err := s.Heartbeat(t.Context(), []pipeline.Heartbeat{{Tenant: "acme", ID: c.ID, Attempt: 1, Claim: c.ClaimID}, {Tenant: "acme", ID: c.ID, Attempt: 2, Claim: c.ClaimID}}, time.Minute)
	if err != nil || !beats[0].Held || beats[1].Held {
		t.Fatalf("heartbeat: %v %+v", err, beats)
	}
	v, err := s.End(t.Context(), ending(t, c, tool.OutcomeSucceeded, ""))
	if err != nil || !v.Written {
		t.Fatalf("end: %v %+v", err, v)
	}
	step, err := s.Step(t.Context(), "acme", a.RunID, 1)
	if err != nil || len(step) != 1 || step[0].Status != tool.Succeeded {
		t.Fatalf("step: %v %+v", err, step)
	}
	history, err := s.History(t.Context(), "acme", c.ID)
	if err != nil || len(history) != 4 || history[3].Name != pipeline.EventCompleted || !history[3].EffectSent {
		t.Fatalf("history: %v %+v", err, history)
	}
	pending, err := s.TakeOutbox(t.Context(), 0, 100)
	if err != nil || len(pending) != 3 {
		t.Fatalf("outbox: %v %+v", err, pending)
	}
	if err := s.Published(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
	if age, count, err := s.OutboxAge(t.Context()); err != nil || count != 0 {
		t.Fatalf("outbox after delete: %v %v %v", age, count, err)
	}
}

func TestTenantsDoNotMixInsideAFlush(t *testing.T) {
	t.Parallel()
	out := &sink{}
	s := storetest.Open(t, out.add)
	a, b := session(t, s, "a"), session(t, s, "b")
	var wg sync.WaitGroup
	for _, n := range []*pipeline.Session{a, b} {
		wg.Go(func() {
			if _, err := s.Admit(context.WithoutCancel(t.Context()), admission(t, n, tool.NewID(), 1, tool.ReadOnly, "x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, h := range out.notices(pipeline.NoticeHint) {
		wrong := hintOf(h)
		wrong.Tenant = map[string]string{"a": "b", "b": "a"}[wrong.Tenant]
		if got := claim(t, s, time.Minute, wrong, pipeline.Hint{Tenant: h.Call.TenantID, Call: tool.NewID()}); len(got) != 0 {
			t.Fatalf("a hint of the other tenant claimed %+v", got)
		}
	}
}
