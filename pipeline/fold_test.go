package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

var (
	now     = time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	run     = tool.ID{1}
	session = tool.ID{2}
)

func openFacts() pipeline.Facts {
	return pipeline.Facts{
		Now: now, SessionFound: true,
		Run: pipeline.Run{ID: run, SessionID: session, Status: pipeline.RunOpen, DeadlineAt: now.Add(time.Hour), HotStep: -1},
	}
}

// call makes a judged call; args tells identical calls from others.
func call(id, args string, change func(*pipeline.Judged)) pipeline.Judged {
	j := pipeline.Judged{
		Row: pipeline.Invocation{
			TenantID: "t", ID: tool.NewID(), SessionID: session, RunID: run, Step: 1, CallID: id, ToolName: "demo.echo", ToolVersion: "1",
			ArgumentsHash: args, Key: id + "/" + args, SideEffect: tool.EffectNone, Class: tool.ReadOnly, Attempt: 1,
		},
		Timeout: time.Second, AllowParallel: true,
	}
	if change != nil {
		change(&j)
	}
	return j
}

func admission(t *testing.T, calls ...pipeline.Judged) *pipeline.Admission {
	t.Helper()
	table, err := outcome.Load()
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Admission{
		Tenant: "t", SessionID: session, RunID: run, Step: 1, Group: tool.ID{9}, Calls: calls, ApprovalExpiry: time.Minute,
		Settle: func(row *pipeline.Invocation, e pipeline.End) pipeline.Settlement {
			return pipeline.Settle(table, row.ToolName, e)
		},
	}
}

// shape is what a test says of a ruling.
func shape(r pipeline.Ruling) []string {
	var out []string
	for _, f := range r.Refusals {
		out = append(out, fmt.Sprintf("refused %s %v", f.Code, f.CallIDs))
	}
	for i := range r.Insert {
		row := &r.Insert[i]
		s := fmt.Sprintf("%s %s", row.CallID, row.Status)
		if row.Terminal() {
			s += " " + row.Reason
		}
		if row.RunError != "" {
			s += " !" + row.RunError
		}
		if row.SynthesisOnly {
			s += " synthesis"
		}
		if row.Parallel {
			s += " parallel"
		}
		out = append(out, s)
	}
	for i := range r.Answer {
		out = append(out, "answer "+r.Answer[i].CallID)
	}
	return out
}

func denied(code string) func(*pipeline.Judged) {
	return func(j *pipeline.Judged) { j.End = &pipeline.End{Outcome: tool.OutcomeDenied, Reason: code} }
}

func counter(args string, outcome tool.OutcomeStatus, reason string, n int) pipeline.Counter {
	return pipeline.Counter{CounterKey: pipeline.CounterKey{Hash: args, Tool: "demo.echo", Outcome: outcome, Reason: reason}, Count: n}
}

func TestFold(t *testing.T) {
	t.Parallel()
	write := func(j *pipeline.Judged) { j.Row.SideEffect, j.Row.Class = tool.WorkspaceWrite, tool.Idempotent }
	ask := func(match bool, unattended string) func(*pipeline.Judged) {
		return func(j *pipeline.Judged) {
			j.NeedsApproval, j.Unattended = true, unattended
			j.MatchStanding = func([]pipeline.StandingRow) (tool.ID, bool) { return tool.ID{7}, match }
		}
	}
	existing := func(id, args string, n int, change func(*pipeline.Existing)) pipeline.Existing {
		e := pipeline.Existing{Invocation: call(id, args, nil).Row}
		e.N, e.Status = n, tool.Authorized
		if change != nil {
			change(&e)
		}
		return e
	}
	tests := map[string]struct {
		calls  []pipeline.Judged
		facts  func(*pipeline.Facts)
		change func(*pipeline.Admission)
		want   []string
	}{
		"single call is authorized": {calls: []pipeline.Judged{call("a", "1", nil)}, want: []string{"a authorized"}},
		"reads run in parallel": {
			calls: []pipeline.Judged{call("a", "1", nil), call("b", "2", nil)},
			want:  []string{"a authorized parallel", "b authorized parallel"},
		},
		"one write makes the batch sequential": {
			calls: []pipeline.Judged{call("a", "1", nil), call("b", "2", write)}, want: []string{"a authorized", "b authorized"},
		},
		"idempotent is not read-only": {
			calls: []pipeline.Judged{call("a", "1", nil), call("b", "2", func(j *pipeline.Judged) { j.Row.Class = tool.Idempotent })},
			want:  []string{"a authorized", "b authorized"},
		},
		"a tool may refuse company": {
			calls: []pipeline.Judged{call("a", "1", nil), call("b", "2", func(j *pipeline.Judged) { j.AllowParallel = false })},
			want:  []string{"a authorized", "b authorized"},
		},
		"an unknown tool makes the batch sequential": {
			calls: []pipeline.Judged{call("a", "1", nil), call("b", "2", func(j *pipeline.Judged) {
				j.Unresolved = true
				denied("policy.matrix.unknown_tool")(j)
			})},
			want: []string{"a authorized", "b denied policy.matrix.unknown_tool"},
		},
		"no time for a parallel batch": {
			calls: []pipeline.Judged{call("a", "1", nil), call("b", "2", nil)},
			facts: func(f *pipeline.Facts) { f.Run.DeadlineAt = now.Add(time.Millisecond) },
			want:  []string{"a authorized", "b authorized"},
		},
		"budget": {
			calls:  []pipeline.Judged{call("a", "1", nil), call("b", "2", nil), call("c", "3", nil)},
			change: func(a *pipeline.Admission) { a.MaxToolCalls = 4 },
			facts:  func(f *pipeline.Facts) { f.Run.CallsUsed = 2 },
			want:   []string{"a authorized", "b authorized", "c failed tool.budget_exhausted"},
		},
		"scope revoked since the session opened": {
			calls: []pipeline.Judged{call("a", "1", func(j *pipeline.Judged) { j.RequiredScopes = []string{"x"} })},
			facts: func(f *pipeline.Facts) { f.Revoked = []string{"x"} },
			want:  []string{"a denied policy.scope.missing"},
		},
		"everything revoked": {
			calls: []pipeline.Judged{call("a", "1", nil)},
			facts: func(f *pipeline.Facts) { f.Revoked = []string{"*"} },
			want:  []string{"a denied policy.scope.missing"},
		},
		"approval":               {calls: []pipeline.Judged{call("a", "1", ask(false, ""))}, want: []string{"a waiting_for_approval"}},
		"standing authorization": {calls: []pipeline.Judged{call("a", "1", ask(true, ""))}, want: []string{"a authorized"}},
		"nobody to ask": {
			calls: []pipeline.Judged{call("a", "1", ask(false, "policy.matrix.unattended"))}, want: []string{"a denied policy.matrix.unattended"},
		},
		"nobody to ask, but asked before": {
			calls: []pipeline.Judged{call("a", "1", ask(true, "policy.matrix.unattended"))}, want: []string{"a authorized"},
		},
		"third identical denial fails the run": {
			calls: []pipeline.Judged{call("a", "1", denied("policy.matrix.critical")), call("b", "2", nil)},
			facts: func(f *pipeline.Facts) {
				f.Counters = []pipeline.Counter{counter("1", tool.OutcomeDenied, "policy.matrix.critical", 2), counter("1", "", "", 2)}
			},
			want: []string{"a denied policy.matrix.critical !tool_policy_denied parallel", "b failed tool.not_started parallel"},
		},
		"three identical denials in one batch": {
			calls: []pipeline.Judged{call("a", "1", denied("policy.scope.missing")), call("b", "1", denied("policy.scope.missing")), call("c", "1", denied("policy.scope.missing"))},
			want:  []string{"a denied policy.scope.missing parallel", "b denied policy.scope.missing parallel", "c denied policy.scope.missing !tool_policy_denied parallel"},
		},
		"denials for other reasons are other counts": {
			calls: []pipeline.Judged{call("a", "1", denied("policy.scope.missing"))},
			facts: func(f *pipeline.Facts) {
				f.Counters = []pipeline.Counter{counter("1", tool.OutcomeDenied, "policy.matrix.critical", 2)}
			},
			want: []string{"a denied policy.scope.missing"},
		},
		"fifth identical call is a loop": {
			calls: []pipeline.Judged{call("a", "1", nil)},
			facts: func(f *pipeline.Facts) { f.Counters = []pipeline.Counter{counter("1", "", "", 4)} },
			want:  []string{"a failed tool.loop_detected !tool_loop_detected"},
		},
		"five identical calls in one batch": {
			calls: []pipeline.Judged{call("a", "1", nil), call("b", "1", nil), call("c", "1", nil), call("d", "1", nil), call("e", "1", nil)},
			want: []string{
				"a authorized parallel", "b authorized parallel", "c authorized parallel", "d authorized parallel",
				"e failed tool.loop_detected !tool_loop_detected parallel",
			},
		},
		"after a hot step only an answer is wanted": {
			calls: []pipeline.Judged{call("a", "2", nil), call("b", "3", nil)},
			facts: func(f *pipeline.Facts) { f.Run.HotStep = 0 },
			want:  []string{"a failed tool.loop_detected parallel", "b failed tool.loop_detected synthesis parallel"},
		},
		"an uncertain call is never repeated": {
			calls: []pipeline.Judged{call("a", "1", nil)},
			facts: func(f *pipeline.Facts) {
				f.Counters = []pipeline.Counter{counter("1", tool.OutcomeUncertain, "tool.outcome_unknown", 1)}
			},
			want: []string{"a denied tool.uncertain_repeat"},
		},
		"a failed run takes nothing": {
			calls: []pipeline.Judged{call("a", "1", nil)},
			facts: func(f *pipeline.Facts) { f.Run.Status = pipeline.RunFailed },
			want:  []string{"refused run_failed []"},
		},
		"a cancelled run takes nothing": {
			calls: []pipeline.Judged{call("a", "1", nil)},
			facts: func(f *pipeline.Facts) { f.Run.Status = pipeline.RunCancelled },
			want:  []string{"refused run_cancelled []"},
		},
		"a closed session takes nothing": {
			calls: []pipeline.Judged{call("a", "1", nil)},
			facts: func(f *pipeline.Facts) { f.SessionClosed = true },
			want:  []string{"refused session_closed []"},
		},
		"another session's run": {
			calls: []pipeline.Judged{call("a", "1", nil)},
			facts: func(f *pipeline.Facts) { f.Run.SessionID = tool.ID{99} },
			want:  []string{"refused unknown_session []"},
		},
		"redelivery is answered even when the run is over": {
			calls: []pipeline.Judged{call("a", "1", nil)},
			facts: func(f *pipeline.Facts) {
				f.Run.Status = pipeline.RunFailed
				f.Existing = []pipeline.Existing{existing("a", "1", 0, nil)}
			},
			want: []string{"answer a"},
		},
		"other arguments under the same id": {
			calls: []pipeline.Judged{call("a", "2", nil)},
			facts: func(f *pipeline.Facts) { f.Existing = []pipeline.Existing{existing("a", "1", 0, nil)} },
			want:  []string{"refused call_id_reused [a]"},
		},
		"a re-proposal may not add calls": {
			calls: []pipeline.Judged{call("a", "1", nil), call("b", "2", nil)},
			facts: func(f *pipeline.Facts) { f.Existing = []pipeline.Existing{existing("a", "1", 0, nil)} },
			want:  []string{"refused malformed []"},
		},
		"re-proposal of a call in flight": {
			calls:  []pipeline.Judged{call("a", "1", nil)},
			change: func(a *pipeline.Admission) { a.N = 1 },
			facts: func(f *pipeline.Facts) {
				f.Existing = []pipeline.Existing{existing("a", "1", 0, func(e *pipeline.Existing) { e.Status, e.LeaseLive = tool.Running, true })}
			},
			want: []string{"refused concurrency_conflict [a]"},
		},
		"re-proposal of a call whose lease ended": {
			calls:  []pipeline.Judged{call("a", "1", nil)},
			change: func(a *pipeline.Admission) { a.N = 1 },
			facts: func(f *pipeline.Facts) {
				f.Existing = []pipeline.Existing{existing("a", "1", 0, func(e *pipeline.Existing) { e.Status = tool.Running })}
			},
			want: []string{"answer a"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := openFacts()
			if tt.facts != nil {
				tt.facts(&f)
			}
			a := admission(t, tt.calls...)
			if tt.change != nil {
				tt.change(a)
			}
			if diff := cmp.Diff(tt.want, shape(a.Fold(f))); diff != "" {
				t.Errorf("ruling (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFoldIsRepeatable: a flush that is run again finds its own rows and
// answers them, whatever else they have become.
func TestFoldIsRepeatable(t *testing.T) {
	t.Parallel()
	a := admission(t, call("a", "1", nil), call("b", "2", nil))
	first := a.Fold(openFacts())
	f := openFacts()
	for _, row := range first.Insert {
		f.Existing = append(f.Existing, pipeline.Existing{Invocation: row})
	}
	f.Run = first.Run
	f.Counters = first.Counters
	again := a.Fold(f)
	if len(again.Insert) != 0 || len(again.Answer) != 2 || len(again.Counters) != 0 || again.RunChanged {
		t.Fatalf("second fold wrote: %v", shape(again))
	}
}

func TestResolveApproval(t *testing.T) {
	t.Parallel()
	waiting := pipeline.Waiting{
		Now: now, RunStatus: pipeline.RunOpen, Status: tool.WaitingForApproval, DeadlineAt: now.Add(time.Hour),
		Approval: pipeline.Approval{MatrixRow: "external_write", ExpiresAt: now.Add(time.Minute)},
	}
	tests := map[string]struct {
		change  func(*pipeline.Waiting)
		approve bool
		again   pipeline.Reentry
		want    string
	}{
		"approved":                  {approve: true, want: "authorize"},
		"denied carries its row":    {want: "end denied policy.matrix.external_write"},
		"decided before":            {change: func(w *pipeline.Waiting) { w.Approval.Decision = "denied" }, approve: true, want: "refused already_decided"},
		"no longer waiting":         {change: func(w *pipeline.Waiting) { w.Status = tool.Failed }, approve: true, want: "refused not_waiting"},
		"run over":                  {change: func(w *pipeline.Waiting) { w.RunStatus = pipeline.RunCancelled }, approve: true, want: "refused run_over"},
		"at the instant of expiry":  {change: func(w *pipeline.Waiting) { w.Approval.ExpiresAt = now }, approve: true, want: "refused expired end denied policy.approval.expired"},
		"after the call's deadline": {change: func(w *pipeline.Waiting) { w.Approval.ExpiresAt, w.DeadlineAt = now, now }, approve: true, want: "refused expired end failed tool.timeout"},
		"scope revoked meanwhile": {
			change: func(w *pipeline.Waiting) { w.Revoked = []string{"x"} }, approve: true,
			again: pipeline.Reentry{RequiredScopes: []string{"x"}}, want: "end denied policy.scope.missing",
		},
		"policy denies now": {
			approve: true, again: pipeline.Reentry{End: &pipeline.End{Outcome: tool.OutcomeDenied, Reason: "policy.rule.denied"}},
			want: "end denied policy.rule.denied",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := waiting
			if tt.change != nil {
				tt.change(&w)
			}
			r := pipeline.ResolveApproval(w, tt.approve, "alice", "", tt.again)
			got := ""
			if r.Refused != "" {
				got = "refused " + r.Refused
			}
			if r.Authorize {
				got += "authorize"
			}
			if r.End != nil {
				if got != "" {
					got += " "
				}
				got += fmt.Sprintf("end %s %s", r.End.Outcome, r.End.Reason)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
