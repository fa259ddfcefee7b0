package gates

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/test/systemtest"
	"github.com/toolbus/toolbus/tool"
)

// scopedWrite needs a scope and, by the shipped policy, an approval.
const scopedWrite = "demo.scoped_write"

// scopedKit adds scopedWrite.
func scopedKit(o *app.Options) {
	spec := declaration(tool.Builtin, func(s *tool.Spec) {
		s.Name, s.SideEffect, s.Idempotency, s.RequiredScopes = scopedWrite, tool.ExternalWrite, tool.NonIdempotent, []string{"mail.send"}
	})
	o.Tools = append(o.Tools, &hesitant{declared: declared{spec: spec}, hold: holder(o.DataDir), sink: o.DemoSink})
}

// approvals is a system without an executor: what is approved stays authorized
// until the test lets it run.
type approvals struct {
	*systemtest.System
	sql     *systemtest.SQL
	session *systemtest.Runtime
}

func newApprovals(t *testing.T, services ...app.Service) *approvals {
	t.Helper()
	a := &approvals{System: systemtest.New(t).Patient()}
	a.sql = a.SQL(t)
	a.Start(t, scopedKit, services...)
	a.session = a.OpenRuntime(t, "acme", func(r *subjects.SessionOpenRequest) { r.Scopes = []string{"mail.send"} })
	return a
}

// ask proposes a call that needs an approval and gives its run and the approval.
func (a *approvals) ask(t *testing.T) (*systemtest.Runtime, tool.ID) {
	t.Helper()
	r := a.session.NewRun(t)
	r.Propose(t, 1, systemtest.Call("c1", "demo.external_write", `{"payload":"x"}`))
	return r, r.Approval(t, 1, "c1")
}

// run lets executors in.
func (a *approvals) run(t *testing.T) {
	t.Helper()
	a.Start(t, scopedKit, app.Executor, app.Recovery)
}

// ended waits for the outcome and wants the given reason code, and no effect.
func (a *approvals) ended(t *testing.T, r *systemtest.Runtime, code string) {
	t.Helper()
	o := r.Outcome(t, 1, "c1")
	if o.Item.Outcome == nil || o.Item.Outcome.ReasonCode != code {
		t.Errorf("%s %+v, want %s", o.Status, o.Item.Outcome, code)
	}
	if n := len(a.Effects(t)); n != 0 {
		t.Errorf("%d effects", n)
	}
}

// TestGate19_Approvals: an approval lets exactly the call run that was shown, as
// it was shown, once, and only while steps 2, 3 and 6 still say so.
func TestGate19_Approvals(t *testing.T) {
	t.Parallel()
	t.Run("altered before the answer", gate19AlteredBefore)
	t.Run("altered after the answer", gate19AlteredAfter)
	t.Run("what was proposed is immutable", gate19Immutable)
	t.Run("expired by a millisecond without a sweeper", gate19Expired)
	t.Run("expiry raced by late answers", gate19ExpiryRace)
	t.Run("used for another call", gate19Reused)
	t.Run("answered in another tenant", gate19CrossTenant)
	t.Run("answered twice", gate19Double)
	t.Run("answered by fifty at once", gate19Racers)
	t.Run("redelivered answer", gate19Redelivered)
	t.Run("scope revoked while it waits", gate19ScopeRevoked)
	t.Run("policy changed while it waits", gate19PolicyChanged)
	t.Run("denied never runs", gate19Denied)
	t.Run("client gone", gate19ClientGone)
	t.Run("answered as soon as there is a row", gate19AtOnce)
}

func gate19AlteredBefore(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, app.Gatekeeper)
	for column, value := range map[string]string{"tool_version": "9.9.9", "normalized_arguments_hash": strings.Repeat("0", 64)} {
		r, approval := a.ask(t)
		a.sql.Exec(t, `UPDATE approvals SET `+column+` = $2 WHERE id = $1`, approval, value)
		if got := r.Decide(t, approval, subjects.DecisionApprove); got.Result != "refused" {
			t.Errorf("%s: %+v", column, got)
		}
		if status := systemtest.Value[string](t, a.sql, `SELECT status FROM tool_invocations WHERE run_id = $1`, r.Run); status != "waiting_for_approval" {
			t.Errorf("%s: %s", column, status)
		}
	}
}

func gate19AlteredAfter(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"version":   `UPDATE approvals SET tool_version = '9.9.9'`,
		"hash":      `UPDATE approvals SET normalized_arguments_hash = repeat('0', 64)`,
		"decision":  `UPDATE approvals SET decision = 'denied', used_at = NULL`,
		"gone":      `DELETE FROM approvals`,
		"call":      `UPDATE approvals SET invocation_id = gen_random_uuid()`,
		"call hash": `ALTER TABLE tool_invocations DISABLE TRIGGER USER; UPDATE tool_invocations SET normalized_arguments_hash = repeat('0', 64)`,
		"arguments": `ALTER TABLE tool_invocations DISABLE TRIGGER USER; UPDATE tool_invocations SET canonical_arguments = '{"payload":"y"}'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newApprovals(t, app.Gatekeeper)
			r, approval := a.ask(t)
			if got := r.Decide(t, approval, subjects.DecisionApprove); got.Result != "applied" {
				t.Fatalf("%+v", got)
			}
			a.sql.Exec(t, sql)
			a.run(t)
			a.ended(t, r, "policy.authority.revoked")
		})
	}
}

func gate19Immutable(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, app.Gatekeeper)
	r, _ := a.ask(t)
	for _, set := range []string{
		`canonical_arguments = '{"payload":"y"}'`, `normalized_arguments_hash = repeat('0', 64)`, `idempotency_key = repeat('0', 64)`,
		`idempotency_class = 'read_only'`, `tool_name = 'demo.echo'`, `tool_version = '9.9.9'`,
	} {
		if _, err := a.sql.Pool.Exec(t.Context(), `UPDATE tool_invocations SET `+set+` WHERE run_id = $1`, r.Run); err == nil {
			t.Errorf("%s was accepted", set)
		}
	}
}

func gate19Expired(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, app.Gatekeeper, app.Executor)
	r, approval := a.ask(t)
	a.sql.Exec(t, `UPDATE approvals SET expires_at = clock_timestamp() - interval '1 millisecond' WHERE id = $1`, approval)
	if got := r.Decide(t, approval, subjects.DecisionApprove); got.Result != "refused" || got.Code != "expired" {
		t.Errorf("%+v", got)
	}
	a.ended(t, r, "policy.approval.expired")
	if n := a.sql.Count(t, `SELECT count(*) FROM approvals WHERE id = $1 AND decision = 'expired'`, approval); n != 1 {
		t.Error("the approval is not recorded as expired")
	}
}

func gate19ExpiryRace(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, app.Gatekeeper)
	const n = 20
	runs := make([]*systemtest.Runtime, n)
	var answers sync.WaitGroup
	ids := make([]tool.ID, n)
	for i := range runs {
		runs[i], ids[i] = a.ask(t)
	}
	a.sql.Exec(t, `UPDATE approvals SET expires_at = clock_timestamp() - interval '1 millisecond'`)
	for range 2 {
		a.Start(t, scopedKit, app.Recovery)
	}
	for i, r := range runs {
		answers.Go(func() {
			if got := r.Decide(t, ids[i], subjects.DecisionApprove); got.Result != "refused" {
				t.Errorf("%+v", got)
			}
		})
	}
	answers.Wait()
	a.run(t)
	for _, r := range runs {
		a.ended(t, r, "policy.approval.expired")
	}
	if told := a.sql.Count(t, `SELECT count(*) FROM events WHERE event = 'approval.expired'`); told != n {
		t.Errorf("%d events of %d expiries", told, n)
	}
	a.sql.CheckInvariants(t)
}

func gate19Reused(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, app.Gatekeeper)
	first, approval := a.ask(t)
	second, _ := a.ask(t)
	first.Decide(t, approval, subjects.DecisionApprove)
	// Whoever can write the table points another call at the approval.
	a.sql.Exec(t, `UPDATE tool_invocations SET status = 'authorized', authority_id = $2 WHERE run_id = $1`, second.Run, approval)
	a.run(t)
	if o := first.Outcome(t, 1, "c1"); o.Status != tool.OutcomeSucceeded {
		t.Errorf("the approved call: %s", o.Status)
	}
	o := second.Outcome(t, 1, "c1")
	if o.Item.Outcome == nil || o.Item.Outcome.ReasonCode != "policy.authority.revoked" {
		t.Errorf("the other call: %s %+v", o.Status, o.Item.Outcome)
	}
	if got := first.Decide(t, approval, subjects.DecisionApprove); got.Result != "refused" || got.Code != "already_decided" {
		t.Errorf("the second answer: %+v", got)
	}
	if n := len(a.Effects(t)); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func gate19CrossTenant(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, app.Gatekeeper, app.Executor)
	r, approval := a.ask(t)
	stranger := a.OpenRuntime(t, "globex", nil)
	for _, d := range []subjects.Decision{subjects.DecisionApprove, subjects.DecisionDeny} {
		if got := stranger.Decide(t, approval, d); got.Result != "refused" || got.Code != "unknown_approval" {
			t.Errorf("%s: %+v", d, got)
		}
	}
	var listed subjects.ApprovalsListResponse
	stranger.Ask(t, subjects.VerbApprovalsList, subjects.ApprovalsListRequest{}, &listed)
	if len(listed.Approvals) != 0 {
		t.Errorf("the stranger is shown %+v", listed.Approvals)
	}
	if status := systemtest.Value[string](t, a.sql, `SELECT status FROM tool_invocations WHERE run_id = $1`, r.Run); status != "waiting_for_approval" {
		t.Error(status)
	}
}

func gate19Double(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, app.Gatekeeper, app.Executor)
	for range 5 {
		r, approval := a.ask(t)
		got := gate19Race(t, r, approval, 2, func(i int) subjects.Decision {
			return []subjects.Decision{subjects.DecisionApprove, subjects.DecisionDeny}[i]
		})
		winner := "denied"
		if got[0].Result == "applied" {
			winner = "approved"
		}
		if said := systemtest.Value[string](t, a.sql, `SELECT decision FROM approvals WHERE id = $1`, approval); said != winner {
			t.Errorf("%s, but %s was applied", said, winner)
		}
		if o := r.Outcome(t, 1, "c1"); (o.Status == tool.OutcomeSucceeded) != (winner == "approved") {
			t.Errorf("%s after %s", o.Status, winner)
		}
	}
	approved := a.sql.Count(t, `SELECT count(*) FROM approvals WHERE decision = 'approved'`)
	if n := len(a.Effects(t)); n != approved {
		t.Errorf("%d effects of %d approvals", n, approved)
	}
}

func gate19Racers(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, app.Gatekeeper)
	a.Start(t, scopedKit, app.Gatekeeper, app.Executor)
	r, approval := a.ask(t)
	gate19Race(t, r, approval, 50, func(int) subjects.Decision { return subjects.DecisionApprove })
	if o := r.Outcome(t, 1, "c1"); o.Status != tool.OutcomeSucceeded {
		t.Error(o.Status)
	}
	if n := len(a.Effects(t)); n != 1 {
		t.Errorf("%d effects", n)
	}
	var listed subjects.ApprovalsListResponse
	r.Ask(t, subjects.VerbApprovalsList, subjects.ApprovalsListRequest{}, &listed)
	if len(listed.Approvals) != 0 {
		t.Errorf("still asked: %+v", listed.Approvals)
	}
	a.sql.CheckInvariants(t)
}

// gate19Race has n approvers answer at once, wants one answer applied and gives
// what became of each.
func gate19Race(t *testing.T, r *systemtest.Runtime, approval tool.ID, n int, say func(int) subjects.Decision) []subjects.CommandGetResponse {
	t.Helper()
	got := make([]subjects.CommandGetResponse, n)
	var answers sync.WaitGroup
	for i := range n {
		answers.Go(func() {
			got[i] = r.Command(t, fmt.Sprintf("approver-%d", i), &subjects.Approval{CommandID: tool.NewID().String(), ApprovalID: approval, Decision: say(i)})
		})
	}
	answers.Wait()
	applied := 0
	for _, g := range got {
		if g.Result == "applied" {
			applied++
		} else if g.Code != "already_decided" {
			t.Errorf("refused as %q", g.Code)
		}
	}
	if applied != 1 {
		t.Errorf("%d answers applied", applied)
	}
	return got
}

func gate19Redelivered(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, app.Gatekeeper, app.Executor)
	r, approval := a.ask(t)
	told := make(chan subjects.Event, 8)
	heard, err := r.Bus.Listen(t.Context(), "toolbus.event.acme.-."+"command.settled")
	if err != nil {
		t.Fatal(err)
	}
	var listening sync.WaitGroup
	listening.Go(func() {
		heard.Run(t.Context(), func(d subjects.Delivery) {
			if e, err := subjects.DecodeEvent(d.Data); err == nil {
				told <- e
			}
		})
	})
	t.Cleanup(listening.Wait)
	answer := &subjects.Approval{CommandID: "answer-1", ApprovalID: approval, Decision: subjects.DecisionApprove}
	r.Command(t, "approver", answer)
	first := <-told
	r.SendCommand(t, "approver", answer) // as a redelivery would bring it
	second := <-told
	if first.EventID != second.EventID || fmt.Sprint(first.Data) != fmt.Sprint(second.Data) || first.Data["result"] != "applied" {
		t.Errorf("told %+v, then %+v", first, second)
	}
	if got := r.Settled(t, "answer-1"); got.Result != "applied" {
		t.Errorf("%+v", got)
	}
	r.Outcome(t, 1, "c1")
	if n := len(a.Effects(t)); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func gate19ScopeRevoked(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"mail.send", "*"} {
		a := newApprovals(t, app.Gatekeeper, app.Executor)
		r := a.session.NewRun(t)
		r.Propose(t, 1, systemtest.Call("c1", scopedWrite, `{}`))
		approval := r.Approval(t, 1, "c1")
		if scope == "*" { // which the grammar of a scope does not let a command say
			a.sql.Exec(t, `INSERT INTO revocations (tenant_id, principal, scope, revoked_by) VALUES ('acme', 'p', '*', 'test')`)
		} else if got := r.Command(t, "operator", &subjects.Revoke{CommandID: "revoke-1", Principal: "p", Scopes: []string{scope}}); got.Result != "applied" {
			t.Fatalf("%+v", got)
		}
		r.Decide(t, approval, subjects.DecisionApprove)
		a.ended(t, r, "policy.scope.missing")
	}
}

func gate19PolicyChanged(t *testing.T) {
	t.Parallel()
	shipped, err := os.ReadFile(filepath.Join("..", "policy", "profiles", "default.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ decision, code string }{
		{"deny", "policy.rule.denied"}, {"require_approval", ""}, {"allow", ""},
	} {
		t.Run(tc.decision, func(t *testing.T) {
			t.Parallel()
			s := systemtest.New(t).Patient()
			profile := filepath.Join(s.Dir, "profile.yaml")
			write := func(rules string) {
				doc := strings.Replace(string(shipped), "rules: []", rules, 1)
				if doc = strings.Replace(doc, "name: default", "name: changing", 1); os.WriteFile(profile, []byte(doc), 0o600) != nil {
					t.Fatal("the profile was not written")
				}
			}
			s.Config.Policy.Profiles = map[string]string{"changing": profile}
			write("rules: []")
			_, stop := s.StartStoppable(t, nil, app.Gatekeeper)
			r := s.OpenRuntime(t, "acme", func(q *subjects.SessionOpenRequest) { q.Profile = "changing" })
			r.Propose(t, 1, systemtest.Call("c1", "demo.external_write", `{"payload":"x"}`))
			approval := r.Approval(t, 1, "c1")
			stop()
			write("rules:\n  - name: changed\n    when: tool.name == \"demo.external_write\"\n    decision: " + tc.decision)
			s.Start(t, nil, app.Gatekeeper, app.Executor, app.Recovery)
			r.Decide(t, approval, subjects.DecisionApprove)
			o := r.Outcome(t, 1, "c1")
			code := ""
			if o.Item.Outcome != nil {
				code = o.Item.Outcome.ReasonCode
			}
			if code != tc.code {
				t.Errorf("%s %q, want %q", o.Status, code, tc.code)
			}
			if ran := len(s.Effects(t)) == 1; ran != (tc.code == "") {
				t.Errorf("effects: %d", len(s.Effects(t)))
			}
		})
	}
}

func gate19Denied(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, app.Gatekeeper)
	r, approval := a.ask(t)
	r.Decide(t, approval, subjects.DecisionDeny)
	a.ended(t, r, "policy.matrix.external_write")
	id := systemtest.Value[tool.ID](t, a.sql, `SELECT id FROM tool_invocations WHERE run_id = $1`, r.Run)
	a.run(t)
	// A hint, an answer, a proposal and another proposal: nothing moves it.
	r.Publish(t, subjects.StreamExecute, "toolbus.execute.acme.in_process", subjects.AppendHints(nil, []subjects.Hint{subjects.HintCall(id)}))
	r.Decide(t, approval, subjects.DecisionApprove)
	for n := range 3 {
		p := r.Proposal(1, systemtest.Call("c1", "demo.external_write", `{"payload":"x"}`))
		p.N = n
		r.Send(t, p)
	}
	a.AwaitIdle(t)
	a.ended(t, r, "policy.matrix.external_write")
	if status := systemtest.Value[string](t, a.sql, `SELECT status FROM tool_invocations WHERE id = $1`, id); status != "denied" {
		t.Error(status)
	}
	if got := gate08Outcomes(t, r, "c1"); len(got) != 1 {
		t.Errorf("%d different outcomes", len(got))
	}
}

func gate19ClientGone(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, app.Gatekeeper, app.Executor)
	gone := a.OpenRuntime(t, "acme", nil)
	gone.Propose(t, 1, systemtest.Call("c1", "demo.external_write", `{"payload":"x"}`))
	approval := gone.Approval(t, 1, "c1")
	gone.Bus.Close()
	operator := a.session
	operator.Decide(t, approval, subjects.DecisionApprove)
	a.sql.Await(t, `SELECT status = 'succeeded' FROM tool_invocations WHERE run_id = $1`, gone.Run)
	var missed subjects.OutcomeGetResponse
	operator.Ask(t, subjects.VerbOutcomeGet, subjects.OutcomeGetRequest{RunID: gone.Run, StepNumber: 1}, &missed)
	if len(missed.Outcomes) != 1 || !json.Valid(missed.Outcomes[0]) {
		t.Errorf("whoever comes back finds %+v", missed)
	}
}

func gate19AtOnce(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, app.Gatekeeper, app.Executor)
	for range 10 {
		r := a.session.NewRun(t)
		r.Propose(t, 1, systemtest.Call("c1", "demo.external_write", `{"payload":"x"}`))
		a.sql.Await(t, `SELECT count(*) = 1 FROM approvals a JOIN tool_invocations t ON t.id = a.invocation_id WHERE t.run_id = $1`, r.Run)
		approval := systemtest.Value[tool.ID](t, a.sql, `SELECT authority_id FROM tool_invocations WHERE run_id = $1`, r.Run)
		r.Decide(t, approval, subjects.DecisionApprove)
		if o := r.Outcome(t, 1, "c1"); o.Status != tool.OutcomeSucceeded {
			t.Error(o.Status)
		}
	}
}
