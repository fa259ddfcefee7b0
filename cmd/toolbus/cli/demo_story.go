package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/internal/ui"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// demoStory proposes the calls, decides the approvals and kills the executor.
type demoStory struct {
	sys  *demoSystem
	view *demoView

	client  *client.Client
	session *client.Session
	run     *client.Run
	aside   *client.Run
	untail  func()

	mu       sync.Mutex
	outcomes []subjects.Outcome
}

const demoDevice = "demo_phone"

func phoneTools() []tool.Spec {
	return []tool.Spec{{
		Name: "device.demo_phone.locate", Version: "1.0.0", Description: "Says where the phone is.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{}}`), SideEffect: tool.ExternalRead, Risk: tool.RiskLow,
		Idempotency: tool.ReadOnly, TimeoutSeconds: 10, MaximumOutputBytes: 4096,
	}}
}

// open connects, follows the events and opens the session, with a device that
// leaves right after.
func (s *demoStory) open(ctx context.Context) (err error) {
	if s.client, err = s.sys.dial(ctx); err != nil {
		return err
	}
	if err := s.follow(ctx); err != nil {
		s.client.Close()
		return err
	}
	s.view.heading("A session, and what it may use")
	if err := s.openSession(ctx); err != nil {
		s.close()
		return err
	}
	return nil
}

func (s *demoStory) openSession(ctx context.Context) error {
	if _, err := app.AttachDevice(ctx, s.sys.options, demoTenant, demoDevice, phoneTools()); err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	var err error
	s.session, err = s.client.OpenSession(ctx, client.SessionOptions{
		Principal: tool.Principal{ID: demoActor, Interactive: true}, Agent: subjects.AgentProfile{ID: "demo", Tools: []string{"*"}},
	})
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	if err := app.DetachDevice(ctx, s.sys.options, demoTenant, demoDevice); err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	s.view.say("%d tools are pinned, one of them a phone's; then the phone goes out of reach.", len(s.session.Tools()))
	s.run, s.aside = s.session.NewRun(), s.session.NewRun()
	return nil
}

// follow shows the events until the story is closed.
func (s *demoStory) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- s.client.Tail(ctx, client.TailOptions{Ready: func() { close(ready) }}, s.view.event) }()
	s.untail = func() { cancel(); <-done }
	select {
	case <-ready:
		return nil
	case err := <-done:
		done <- err
		s.untail()
		return fmt.Errorf("events: %w", err)
	}
}

func (s *demoStory) close() {
	s.untail()
	s.client.Close()
}

func (s *demoStory) tell(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{s.plain, s.refused, s.approved, s.crash} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

// plain is a step whose calls just succeed.
func (s *demoStory) plain(ctx context.Context) error {
	s.view.heading("A step of two calls")
	return s.step(ctx, s.run, 0, nil,
		demoProposal("sum", "math.evaluate", `{"expression":"6*7"}`),
		demoProposal("note", "workspace.write_text", `{"path":"note.md","text":"six times seven"}`))
}

// refused is a step of calls that cannot be.
func (s *demoStory) refused(ctx context.Context) error {
	s.view.heading("Wrong arguments, a tool that nobody offers, a phone out of reach")
	return s.step(ctx, s.run, 1, nil,
		demoProposal("typo", "math.evaluate", `{"expresion":"1+1"}`),
		demoProposal("refund", "payments.refund", `{"amount":100}`),
		demoProposal("locate", "device.demo_phone.locate", `{}`))
}

// approved is a write that a person lets through.
func (s *demoStory) approved(ctx context.Context) error {
	s.view.heading("A write to the outside waits for a person")
	return s.step(ctx, s.run, 2, s.approve, demoProposal("letter", "demo.external_write", `{"payload":"a letter"}`))
}

// crash kills the executor while it holds two calls: one that may run again, and
// one that has had its effect and may not.
func (s *demoStory) crash(ctx context.Context) error {
	s.view.heading("An executor is killed in the middle of two calls")
	report, err := s.aside.Propose(ctx, demoStep(0, nil, demoProposal("report", "demo.slow", `{"seconds":4}`)))
	if err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	pending := make(chan subjects.Pending, 1)
	pay := demoProposal("payment", "demo.external_write", `{"payload":"a payment","delay_after_seconds":60}`)
	payment, err := s.run.Propose(ctx, demoStep(3, func(n subjects.Pending) { pending <- n }, pay))
	if err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	steps := []*client.OpenStep{report, payment}
	results := make([]error, len(steps))
	var waits sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer waits.Wait()
	defer cancel()
	for i, step := range steps {
		waits.Go(func() { results[i] = s.await(ctx, step) })
	}
	select {
	case n := <-pending:
		s.approve(ctx, n)
		err = s.murder(ctx, n.InvocationID)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	waits.Wait()
	for _, err := range results {
		if err != nil {
			return err
		}
	}
	return nil
}

// murder kills the executor that had the effect, and starts another.
func (s *demoStory) murder(ctx context.Context, invocation tool.ID) error {
	victim, err := s.holder(ctx, invocation.String())
	if err != nil {
		return err
	}
	if err := s.started(ctx); err != nil {
		return err
	}
	s.view.say("The payment has left the house, and nobody has been told yet:")
	s.view.types(fmt.Sprintf("kill -9 %d", victim.pid()))
	if err := victim.kill(); err != nil {
		return err
	}
	another, err := s.sys.replaceExecutor(ctx)
	if err != nil {
		return err
	}
	s.view.say("%s takes its place; the leases of the dead one end within two seconds.", another.name)
	return nil
}

// holder waits until the effect of a call is seen, and gives the executor whose
// it is.
func (s *demoStory) holder(ctx context.Context, invocation string) (*child, error) {
	var holder *child
	return holder, eventually(ctx, func() (bool, error) {
		for _, c := range s.sys.executors {
			seen, err := c.effects()
			if err != nil || seen[invocation] > 0 {
				holder = c
				return true, err
			}
		}
		return false, nil
	})
}

// started waits until the report is under way.
func (s *demoStory) started(ctx context.Context) error {
	return eventually(ctx, func() (bool, error) {
		w, err := s.client.InvocationsGetByCall(ctx, s.aside.ID(), 0, "report")
		return err == nil && w.Invocation.StartedAt != nil, err
	})
}

// eventually asks until the answer is yes.
func eventually(ctx context.Context, ask func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}

// approve shows what a person would type, and does it. A failure shows when the
// call does not end.
func (s *demoStory) approve(ctx context.Context, n subjects.Pending) {
	s.view.await(ctx, n.InvocationID, subjects.EventApprovalRequest)
	s.view.say("Somebody looks at the exact arguments and types:")
	s.view.types(s.view.command("approvals approve --data " + shellWord(s.sys.dir) + " " + n.Pending.Ref))
	s.view.breathe(ctx)
	id, err := tool.ParseID(n.Pending.Ref)
	if err == nil {
		_, err = s.client.Approve(ctx, id, "looks right")
	}
	var decided *client.CommandRefusedError
	switch {
	case err == nil, ctx.Err() != nil:
	case errors.As(err, &decided):
		s.view.say("Somebody else was faster.")
	default:
		s.view.say("That failed: %s", ui.Escape(err.Error()))
	}
}

func demoProposal(id, name, arguments string) subjects.Call {
	call := subjects.Call{CallID: id, Name: name, Arguments: json.RawMessage(arguments), ArgumentTrust: map[string]tool.Trust{}}
	var members map[string]json.RawMessage
	if json.Unmarshal(call.Arguments, &members) == nil {
		for member := range members {
			call.ArgumentTrust[member] = tool.User
		}
	}
	return call
}

func demoStep(number int, onPending func(subjects.Pending), calls ...subjects.Call) client.Step {
	return client.Step{Number: number, OriginTrust: tool.User, Calls: calls, OnPending: onPending}
}

// step proposes calls and waits until each has ended and its last event was
// shown.
func (s *demoStory) step(ctx context.Context, run *client.Run, number int, onPending func(context.Context, subjects.Pending), calls ...subjects.Call) error {
	open, err := run.Propose(ctx, demoStep(number, func(n subjects.Pending) { onPending(ctx, n) }, calls...))
	if err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	return s.await(ctx, open)
}

func (s *demoStory) await(ctx context.Context, open *client.OpenStep) error {
	outcomes, err := open.Wait(ctx)
	if err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	s.mu.Lock()
	s.outcomes = append(s.outcomes, outcomes...)
	s.mu.Unlock()
	for i := range outcomes {
		s.view.await(ctx, outcomes[i].InvocationID, lastEvent)
	}
	return nil
}

// result looks every call up as it is recorded.
func (s *demoStory) result(ctx context.Context) ([]demoCall, error) {
	effects, err := s.sys.effects()
	if err != nil {
		return nil, err
	}
	calls := make([]demoCall, 0, len(s.outcomes))
	for i := range s.outcomes {
		o := &s.outcomes[i]
		w, err := s.client.InvocationsGet(ctx, o.InvocationID)
		if err != nil {
			return nil, fmt.Errorf("recorded call: %w", err)
		}
		id := o.InvocationID.String()
		calls = append(calls, demoCall{
			Call: o.CallID, Tool: o.ToolName, Status: string(o.Status), Reason: w.Invocation.ReasonCode, Attempts: w.Invocation.AttemptNumber,
			Effects: effects[id], Why: demoWhy(o, &w), InvocationID: id, style: outcomeStyle(o.Status),
		})
	}
	return calls, nil
}

// demoWhy says in a line how a call came to its end.
func demoWhy(o *subjects.Outcome, w *subjects.InvocationsGetResponse) string {
	switch {
	case o.Item.Outcome != nil:
		return o.Item.Outcome.Message
	case w.Invocation.AttemptNumber > 1:
		return "Its executor was killed; it has no effect, so another ran it again."
	}
	for _, e := range w.Events {
		if e.Event == subjects.EventApprovalDecided {
			return "Done, after a person approved these very arguments."
		}
	}
	for _, part := range o.Item.Content {
		if part.Text != "" {
			return "Done: " + ui.Clip(ui.Escape(part.Text), 48)
		}
	}
	return "Done."
}
