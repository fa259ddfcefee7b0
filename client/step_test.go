package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

func propose(t *testing.T, r *client.Run, step client.Step) *client.OpenStep {
	t.Helper()
	s, err := r.Propose(within(t, 10*time.Second), step)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Outcomes come in the order of the calls, whatever the order of their arrival,
// each once.
func TestWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(g *gatekeeper) {
		g.onProposal = func(tenant string, p *subjects.Proposal) {
			for _, c := range slices.Backward(p.Calls) {
				data := g.record(p, succeeded(p, c))
				g.publish(tenant, p.RunID, data)
				g.publish(tenant, p.RunID, data)
				g.publish(tenant, p.RunID, []byte(`{"not":"an answer"}`))
			}
		}
	})
	s := propose(t, w.run(t), client.Step{Number: 3, OriginTrust: tool.User, Calls: calls("a", "b", "c")})
	ctx := within(t, 10*time.Second)
	for range 2 { // a second waiter sees the same
		outcomes, err := s.Wait(ctx)
		if err != nil || callIDs(outcomes) != "a b c" {
			t.Fatalf("got %q, %v", callIDs(outcomes), err)
		}
	}
	seen := 0
	for answer, err := range s.Outcomes(ctx) {
		if seen++; err != nil || answer.Outcome == nil {
			t.Errorf("answer %d is %+v, %v", seen, answer, err)
		}
	}
	if seen != 3 {
		t.Errorf("%d answers, want each outcome once", seen)
	}
	p := w.gate.seen()[0]
	if p.StepNumber != 3 || p.OriginTrust != tool.User || p.N != 0 || string(p.Calls[0].Arguments) != "{}" {
		t.Errorf("proposed %+v", p)
	}
}

// What the subscription never carried is asked for.
func TestLostOutcomeIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(g *gatekeeper) {
		g.onProposal = func(tenant string, p *subjects.Proposal) {
			g.publish(tenant, p.RunID, g.record(p, succeeded(p, p.Calls[0])))
			g.record(p, succeeded(p, p.Calls[1]))
		}
	})
	s := propose(t, w.run(t), client.Step{Calls: calls("told", "lost")})
	outcomes, err := s.Wait(within(t, 10*time.Second))
	if err != nil || callIDs(outcomes) != "told lost" {
		t.Fatalf("got %q, %v", callIDs(outcomes), err)
	}
	if w.gate.asks(subjects.VerbOutcomeGet) == 0 {
		t.Error("nothing was asked")
	}
}

// A refusal is in no table: when it is lost, the proposal is repeated, byte for
// byte, and the refusal comes again.
func TestLostRefusalIsProvoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(g *gatekeeper) {
		g.onProposal = func(tenant string, p *subjects.Proposal) {
			if len(g.seen()) > 1 {
				g.refuse(tenant, p, subjects.RefusedSessionClosed)
			}
		}
	})
	s := propose(t, w.run(t), client.Step{Calls: calls("a")})
	_, err := s.Wait(within(t, 20*time.Second))
	var refused *client.RefusalError
	if !errors.As(err, &refused) || refused.Code != subjects.RefusedSessionClosed {
		t.Fatalf("got %v", err)
	}
	seen := w.gate.seen()
	if diff := cmp.Diff(seen[0], seen[1]); len(seen) != 2 || diff != "" {
		t.Errorf("%d proposals, the second differs: %s", len(seen), diff)
	}
}

// An answer of outcome_get that had no room for an outcome has the proposal
// repeated, which brings the outcome itself; a call that waits does not.
func TestNoRoomForAnOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(g *gatekeeper) {
		g.onProposal = func(tenant string, p *subjects.Proposal) {
			if len(g.seen()) > 1 {
				g.publish(tenant, p.RunID, encode(succeeded(p, p.Calls[0])))
			}
		}
		g.onVerb = func(verb, _ string, _ []byte) (bool, any, error) {
			return verb == subjects.VerbOutcomeGet, subjects.OutcomeGetResponse{
				Outcomes: []json.RawMessage{}, Pending: []json.RawMessage{}, Open: []string{"a"}, More: true,
			}, nil
		}
	})
	s := propose(t, w.run(t), client.Step{Calls: calls("a")})
	outcomes, err := s.Wait(within(t, 20*time.Second))
	if err != nil || callIDs(outcomes) != "a" || len(w.gate.seen()) != 2 {
		t.Errorf("got %q, %v after %d proposals", callIDs(outcomes), err, len(w.gate.seen()))
	}
}

// The outcome comes while the connection is away: the client asks as soon as it
// is back.
func TestReconnect(t *testing.T) {
	t.Parallel()
	proposed := make(chan *subjects.Proposal, 1)
	w := newWorld(t, func(g *gatekeeper) {
		g.onProposal = func(_ string, p *subjects.Proposal) { proposed <- p }
	})
	r := w.run(t)
	s := propose(t, r, client.Step{Calls: calls("a")})
	p := <-proposed
	w.line.cut()
	w.gate.publish("acme", p.RunID, w.gate.record(p, succeeded(p, p.Calls[0])))
	time.AfterFunc(50*time.Millisecond, w.line.mend)
	outcomes, err := s.Wait(within(t, 20*time.Second))
	if err != nil || callIDs(outcomes) != "a" {
		t.Fatalf("got %q, %v", callIDs(outcomes), err)
	}
	// The subscription lives on, and so does proposing.
	again := propose(t, r, client.Step{Number: 1, Calls: calls("b")})
	p = <-proposed
	w.gate.publish("acme", p.RunID, encode(succeeded(p, p.Calls[0])))
	if outcomes, err := again.Wait(within(t, 10*time.Second)); err != nil || callIDs(outcomes) != "b" {
		t.Fatalf("got %q, %v", callIDs(outcomes), err)
	}
}

// A proposal that meets a broken connection is sent when it is mended.
func TestProposeWhileDisconnected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.run(t)
	w.line.cut()
	if _, err := r.Propose(within(t, 300*time.Millisecond), client.Step{Calls: calls("a")}); !errors.Is(err, client.ErrUnavailable) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a connection: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, w.line.mend)
	s := propose(t, r, client.Step{Calls: calls("a")})
	if _, err := s.Wait(within(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(g *gatekeeper) {
		g.onProposal = func(tenant string, p *subjects.Proposal) {
			switch {
			case p.StepNumber == 0:
				g.refuse(tenant, p, subjects.RefusedUnknownSession)
			case p.N == 0: // two codes, one outcome
				g.refuse(tenant, p, subjects.RefusedConcurrencyConflict, "b")
				g.refuse(tenant, p, subjects.RefusedConcurrencyConflict, "b")
				g.refuse(tenant, p, subjects.RefusedCallIDReused, "c")
				g.publish(tenant, p.RunID, g.record(p, succeeded(p, p.Calls[0])))
			default: // a late refusal of the first proposal says nothing about this one
				first := *p
				first.N = 0
				g.refuse(tenant, &first, subjects.RefusedOverloaded)
				for _, c := range p.Calls {
					g.publish(tenant, p.RunID, g.record(p, succeeded(p, c)))
				}
			}
		}
	})
	r := w.run(t)
	ctx := within(t, 10*time.Second)

	whole := propose(t, r, client.Step{Calls: calls("a", "b")})
	outcomes, err := whole.Wait(ctx)
	var refused *client.RefusalError
	if !errors.As(err, &refused) || refused.Code != subjects.RefusedUnknownSession || len(refused.CallIDs) != 0 || len(outcomes) != 0 {
		t.Fatalf("whole: got %q, %v", callIDs(outcomes), err)
	}

	part := propose(t, r, client.Step{Number: 1, Calls: calls("a", "b", "c")})
	outcomes, err = part.Wait(ctx)
	if callIDs(outcomes) != "a" || !errors.As(err, &refused) || refused.CallIDs[0] != "b" {
		t.Fatalf("part: got %q, %v", callIDs(outcomes), err)
	}
	if !strings.Contains(err.Error(), "call_id_reused") {
		t.Errorf("the second refusal is missing: %v", err)
	}

	if err := part.Repropose(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	outcomes, err = part.Wait(ctx)
	if callIDs(outcomes) != "a b" || !errors.As(err, &refused) || refused.Code != subjects.RefusedCallIDReused {
		t.Fatalf("proposed again: got %q, %v", callIDs(outcomes), err)
	}
	if last := w.gate.seen()[2]; last.N != 1 || part.N() != 1 || len(last.Calls) != 1 || last.Calls[0].CallID != "b" {
		t.Errorf("proposed again as %+v", last)
	}
	if err := part.Repropose(ctx); err != nil {
		t.Fatal(err)
	}
	if outcomes, err = part.Wait(ctx); err != nil || callIDs(outcomes) != "a b c" {
		t.Errorf("in the end: got %q, %v", callIDs(outcomes), err)
	}
	if err := part.Repropose(ctx); err != nil || len(w.gate.seen()) != 4 {
		t.Errorf("nothing was left to propose: %v, %d proposals", err, len(w.gate.seen()))
	}
}

func TestPending(t *testing.T) {
	t.Parallel()
	notices := make(chan subjects.Pending, 10)
	w := newWorld(t, func(g *gatekeeper) {
		g.onProposal = func(tenant string, p *subjects.Proposal) {
			for _, ref := range []string{"one", "one", "two"} {
				g.publish(tenant, p.RunID, encode(pending(p, p.Calls[0], ref)))
			}
			o := succeeded(p, p.Calls[0])
			breaker := "tool_loop_detected"
			o.RunError, o.SynthesisOnly = &breaker, true
			g.publish(tenant, p.RunID, g.record(p, o))
		}
	})
	s := propose(t, w.run(t), client.Step{Calls: calls("a"), OnPending: func(p subjects.Pending) { notices <- p }})
	if _, err := s.Wait(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if s.RunError() != "tool_loop_detected" || !s.SynthesisOnly() {
		t.Errorf("run error %q, synthesis only %v", s.RunError(), s.SynthesisOnly())
	}
	close(notices)
	var refs []string
	for n := range notices {
		refs = append(refs, n.Pending.Ref)
	}
	if diff := cmp.Diff([]string{"one", "two"}, refs); diff != "" {
		t.Error(diff)
	}
}

// What the contract forbids is said before anything is sent.
func TestProposalRefusedLocally(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.run(t)
	big := calls("a", "b")
	for i := range big {
		big[i].Arguments = json.RawMessage(`{"text":"` + strings.Repeat("x", 400<<10) + `"}`)
	}
	huge := slices.Clone(big)
	huge[0].Arguments = json.RawMessage(`{"text":"` + strings.Repeat("x", 2<<20) + `"}`)
	var field *subjects.FieldError
	for name, test := range map[string]struct {
		step client.Step
		want func(error) bool
	}{
		"large":     {client.Step{Calls: big}, func(err error) bool { return errors.Is(err, client.ErrTooLarge) }},
		"huge":      {client.Step{Calls: huge}, func(err error) bool { return errors.Is(err, client.ErrTooLarge) }},
		"empty":     {client.Step{}, func(err error) bool { return errors.As(err, &field) && field.Field == "calls" }},
		"twice":     {client.Step{Calls: calls("a", "a")}, func(err error) bool { return errors.As(err, &field) }},
		"bridge":    {client.Step{Calls: calls("bridge:1")}, func(err error) bool { return errors.As(err, &field) }},
		"no object": {client.Step{Calls: []subjects.Call{{CallID: "a", Name: "x", Arguments: json.RawMessage(`[]`)}}}, func(err error) bool { return errors.As(err, &field) }},
		"platform":  {client.Step{OriginTrust: tool.Platform, Calls: calls("a")}, func(err error) bool { return errors.As(err, &field) }},
	} {
		if _, err := r.Propose(within(t, 5*time.Second), test.step); !test.want(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if n := len(w.gate.seen()); n != 0 {
		t.Errorf("%d were sent", n)
	}
}

func TestStepIsOpenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(g *gatekeeper) { g.onProposal = func(string, *subjects.Proposal) {} })
	r := w.run(t)
	s := propose(t, r, client.Step{Calls: calls("a")})
	if _, err := r.Propose(within(t, 5*time.Second), client.Step{Calls: calls("b")}); !errors.Is(err, client.ErrStepOpen) {
		t.Errorf("the same step twice: %v", err)
	}
	if _, err := s.Wait(within(t, 10*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the deadline: %v", err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := s.Wait(within(t, 10*time.Second))
		waited <- err
	}()
	r.Close()
	if err := <-waited; !errors.Is(err, client.ErrClosed) {
		t.Errorf("after closing the run: %v", err)
	}
	if _, err := r.Propose(within(t, 5*time.Second), client.Step{Number: 1, Calls: calls("a")}); !errors.Is(err, client.ErrClosed) {
		t.Errorf("proposed in a closed run: %v", err)
	}
}

func TestCloseEndsWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(g *gatekeeper) { g.onProposal = func(string, *subjects.Proposal) {} })
	s := propose(t, w.run(t), client.Step{Calls: calls("a")})
	waited := make(chan error, 1)
	go func() {
		_, err := s.Wait(within(t, 10*time.Second))
		waited <- err
	}()
	w.Close()
	if err := <-waited; !errors.Is(err, client.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := w.OutcomeGet(within(t, 5*time.Second), tool.NewID(), 0); !errors.Is(err, client.ErrClosed) {
		t.Errorf("asked through a closed client: %v", err)
	}
}
