package systemtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// Runtime is an agent's side of the bus, as a test plays it: a session, a run,
// and everything that was said on the run's outcome subject. Safe for concurrent
// use.
type Runtime struct {
	Bus     *bus.Bus
	Tenant  string
	Session tool.ID
	Run     tool.ID

	mu      sync.Mutex
	heard   [][]byte
	changed chan struct{}
}

// OpenRuntime opens a session for a tenant, every tool offered, and listens on a
// new run. change, unless nil, adjusts the request.
func (s *System) OpenRuntime(t testing.TB, tenant string, change func(*subjects.SessionOpenRequest)) *Runtime {
	t.Helper()
	r := &Runtime{Bus: s.Account.Connect(t, bus.Options{Name: "runtime"}), Tenant: tenant, Run: tool.NewID(), changed: make(chan struct{})}
	request := subjects.SessionOpenRequest{
		RequestID: tool.NewID().String(), Principal: tool.Principal{ID: "p", Interactive: true}, Scopes: []string{},
		Agent: subjects.AgentProfile{ID: "a", Tools: []string{"*"}},
	}
	if change != nil {
		change(&request)
	}
	var opened subjects.SessionOpenResponse
	r.Ask(t, subjects.VerbSessionOpen, request, &opened)
	r.Session = opened.SessionID
	r.listen(t)
	return r
}

// NewRun is another run of the same session.
func (r *Runtime) NewRun(t testing.TB) *Runtime {
	t.Helper()
	return r.ForRun(t, tool.NewID())
}

// ForRun listens on the given run of the same session.
func (r *Runtime) ForRun(t testing.TB, run tool.ID) *Runtime {
	t.Helper()
	n := &Runtime{Bus: r.Bus, Tenant: r.Tenant, Session: r.Session, Run: run, changed: make(chan struct{})}
	n.listen(t)
	return n
}

func (r *Runtime) listen(t testing.TB) {
	t.Helper()
	subject, err := subjects.OutcomeFor(r.Tenant, r.Run)
	if err != nil {
		t.Fatal(err)
	}
	heard, err := r.Bus.Listen(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	listening.Go(func() { heard.Run(ctx, r.hear) })
	t.Cleanup(func() { stop(); listening.Wait() })
}

func (r *Runtime) hear(d subjects.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, bytes.Clone(d.Data))
	close(r.changed)
	r.changed = make(chan struct{})
}

// Call makes a call of a proposal; arguments is JSON text.
func Call(id, name, arguments string) subjects.Call {
	return subjects.Call{CallID: id, Name: name, Arguments: json.RawMessage(arguments)}
}

// Proposal makes a step of the run, on the user's behalf.
func (r *Runtime) Proposal(step int, calls ...subjects.Call) subjects.Proposal {
	return subjects.Proposal{SessionID: r.Session, RunID: r.Run, StepNumber: step, OriginTrust: tool.User, Calls: calls}
}

// Propose publishes a step of the run.
func (r *Runtime) Propose(t testing.TB, step int, calls ...subjects.Call) {
	t.Helper()
	r.Send(t, r.Proposal(step, calls...))
}

// Send publishes a proposal.
func (r *Runtime) Send(t testing.TB, p subjects.Proposal) {
	t.Helper()
	data, err := subjects.ProposalDecoder{}.Encode(p)
	if err != nil {
		t.Fatalf("proposal: %v", err)
	}
	r.SendRaw(t, data)
}

// SendRaw publishes any bytes on the proposal subject of the run.
func (r *Runtime) SendRaw(t testing.TB, data []byte) {
	t.Helper()
	subject, err := subjects.Propose(r.Tenant, r.Run)
	if err != nil {
		t.Fatal(err)
	}
	r.Publish(t, subjects.StreamPropose, subject, data)
}

// Publish stores a message in a stream.
func (r *Runtime) Publish(t testing.TB, stream, subject string, data []byte) {
	t.Helper()
	if err := r.Bus.Publish(t.Context(), []subjects.Publication{{Stream: stream, Subject: subject, Data: data}})[0]; err != nil {
		t.Fatalf("publish on %q: %v", subject, err)
	}
}

// Answers gives what was said on the run's outcome subject so far, as it was
// said.
func (r *Runtime) Answers() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.heard)
}

// Heard waits for an answer that matches.
func (r *Runtime) Heard(t testing.TB, what string, matches func(a subjects.Answer, raw []byte) bool) (subjects.Answer, []byte) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for seen := 0; ; {
		r.mu.Lock()
		heard, changed := r.heard, r.changed
		r.mu.Unlock()
		for ; seen < len(heard); seen++ {
			a, err := subjects.DecodeAnswer(heard[seen])
			if err != nil {
				t.Fatalf("answer %s: %v", heard[seen], err)
			}
			if matches(a, heard[seen]) {
				return a, heard[seen]
			}
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("waited in vain for %s; heard %s", what, bytes.Join(heard, []byte("\n")))
		}
	}
}

// Outcome waits for the outcome of a call.
func (r *Runtime) Outcome(t testing.TB, step int, callID string) *subjects.Outcome {
	t.Helper()
	a, _ := r.Heard(t, fmt.Sprintf("the outcome of %s in step %d", callID, step), func(a subjects.Answer, _ []byte) bool {
		return a.Outcome != nil && a.Outcome.StepNumber == step && a.Outcome.CallID == callID
	})
	return a.Outcome
}

// Pending waits for the notice that a call waits.
func (r *Runtime) Pending(t testing.TB, step int, callID string) *subjects.Pending {
	t.Helper()
	a, _ := r.Heard(t, fmt.Sprintf("the notice of %s in step %d", callID, step), func(a subjects.Answer, _ []byte) bool {
		return a.Pending != nil && a.Pending.StepNumber == step && a.Pending.CallID == callID
	})
	return a.Pending
}

// Approval waits for the notice that a call waits for an approval and gives the
// approval's id.
func (r *Runtime) Approval(t testing.TB, step int, callID string) tool.ID {
	t.Helper()
	id, err := tool.ParseID(r.Pending(t, step, callID).Pending.Ref)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Refusal waits for a refusal with the given code.
func (r *Runtime) Refusal(t testing.TB, code subjects.RefusalCode) *subjects.Refusal {
	t.Helper()
	a, _ := r.Heard(t, "a refusal "+string(code), func(a subjects.Answer, _ []byte) bool {
		return a.Refusal != nil && a.Refusal.Refusal.Code == code
	})
	return a.Refusal
}

// Ask is a request to the gatekeeper.
func (r *Runtime) Ask(t testing.TB, verb string, request, into any) {
	t.Helper()
	if err := r.TryAsk(t, verb, request, into); err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
}

// TryAsk is [Runtime.Ask] for requests that may fail.
func (r *Runtime) TryAsk(t testing.TB, verb string, request, into any) error {
	t.Helper()
	subject, err := subjects.RPC(subjects.ServiceGatekeeper, verb, r.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return r.Bus.Request(ctx, subject, request, into) //nolint:wrapcheck // the test looks at it
}

// Command publishes a command and waits until it is settled.
func (r *Runtime) Command(t testing.TB, actor string, c subjects.Command) subjects.CommandGetResponse {
	t.Helper()
	r.SendCommand(t, actor, c)
	return r.Settled(t, c.ID())
}

// SendCommand publishes a command.
func (r *Runtime) SendCommand(t testing.TB, actor string, c subjects.Command) {
	t.Helper()
	data, err := subjects.EncodeCommand(c)
	if err != nil {
		t.Fatalf("command: %v", err)
	}
	subject, err := subjects.CommandFor(r.Tenant, c.Kind(), actor)
	if err != nil {
		t.Fatal(err)
	}
	r.Publish(t, subjects.StreamCommand, subject, data)
}

// Settled waits until a command is settled.
func (r *Runtime) Settled(t testing.TB, id string) subjects.CommandGetResponse {
	t.Helper()
	var out subjects.CommandGetResponse
	Await(t, "command "+id, func() bool {
		return r.TryAsk(t, subjects.VerbCommandGet, subjects.CommandGetRequest{CommandID: id}, &out) == nil
	})
	return out
}

// Decide answers an approval and waits until the answer is settled.
func (r *Runtime) Decide(t testing.TB, approval tool.ID, decision subjects.Decision) subjects.CommandGetResponse {
	t.Helper()
	return r.Command(t, "approver", &subjects.Approval{CommandID: tool.NewID().String(), ApprovalID: approval, Decision: decision})
}
