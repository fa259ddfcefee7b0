package client

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// Run is a run as its runtime drives it. From the first proposal until it is
// closed it holds one subscription, on which the outcomes of all its steps
// arrive. Safe for concurrent use.
type Run struct {
	session *Session
	id      tool.ID

	// listening admits one goroutine to the making of the subscription, which
	// takes a round trip.
	listening sync.Mutex

	mu       sync.Mutex
	outcomes string // the subject, once subscribed
	sub      *nats.Subscription
	flushed  bool
	closed   bool
	denied   error
	steps    map[int]*OpenStep
}

// ID identifies the run.
func (r *Run) ID() tool.ID { return r.id }

// Session is the session of the run.
func (r *Run) Session() *Session { return r.session }

// Cancel ends the run and what is open in it, and waits until that is settled.
// The outcomes of open calls still arrive: wait for them before [Run.Close].
func (r *Run) Cancel(ctx context.Context, reason string) (Settled, error) {
	return r.session.client.Cancel(ctx, r.id, reason)
}

// End tells the bus that the run is over, and waits until that is settled.
func (r *Run) End(ctx context.Context) (Settled, error) {
	return r.session.client.EndRun(ctx, r.id)
}

// Close gives the subscription up. Whoever waits for a step gets [ErrClosed].
// The run itself goes on: see [Run.End] and [Run.Cancel]. Calling it again does
// nothing.
func (r *Run) Close() {
	r.mu.Lock()
	sub := r.sub
	r.sub, r.closed = nil, true
	r.mu.Unlock()
	if sub != nil {
		// It fails only on a closed connection, which has no subscriptions.
		_ = sub.Unsubscribe()
	}
	r.fail(ErrClosed)
	c := r.session.client
	c.mu.Lock()
	delete(c.runs, r)
	c.mu.Unlock()
}

// leave says that the run is over without waiting for it to be settled; a run
// that nobody ends is ended by its deadline.
func (r *Run) leave(ctx context.Context) {
	c := r.session.client
	if c.options.Actor == "" {
		return
	}
	command := &subjects.RunEnd{CommandID: tool.NewID().String(), RunID: r.id}
	if err := c.submit(ctx, command); err != nil {
		c.log.DebugContext(ctx, "end of run was not told", "run_id", r.id.String(), "cause", err.Error())
	}
}

// listen subscribes to the outcomes of the run and waits until the server knows:
// an outcome that is published before is not lost, but late.
func (r *Run) listen(ctx context.Context) error {
	r.listening.Lock()
	defer r.listening.Unlock()
	if done, err := r.subscribe(); done || err != nil {
		return err
	}
	if err := r.session.client.flush(ctx); err != nil {
		return fmt.Errorf("subscribe to outcomes: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushed = true
	return r.denied
}

func (r *Run) subscribe() (done bool, err error) {
	c := r.session.client
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return false, ErrClosed
	case r.denied != nil:
		return false, r.denied
	case r.sub != nil:
		return r.flushed, nil
	}
	subject, err := subjects.OutcomeFor(c.options.Tenant, r.id)
	if err != nil {
		return false, fmt.Errorf("subscribe to outcomes: %w", err)
	}
	c.mu.Lock()
	c.runs[r] = struct{}{}
	c.mu.Unlock()
	r.outcomes = subject
	r.sub, err = c.conn.Subscribe(subject, r.receive)
	if err != nil {
		return false, fmt.Errorf("subscribe to outcomes: %w", sendError(err))
	}
	return false, nil
}

// receive takes one message of the outcome subject.
func (r *Run) receive(m *nats.Msg) {
	answer, err := subjects.DecodeAnswer(m.Data)
	if err != nil {
		r.session.client.log.Warn("answer does not decode", "run_id", r.id.String(), "cause", err.Error())
		return
	}
	run, number := address(&answer)
	if run != r.id {
		r.session.client.log.Warn("answer names another run than its subject", "run_id", r.id.String())
		return
	}
	r.mu.Lock()
	step := r.steps[number]
	r.mu.Unlock()
	if step != nil {
		step.take(answer)
	}
}

func address(a *subjects.Answer) (run tool.ID, step int) {
	switch {
	case a.Outcome != nil:
		return a.Outcome.RunID, a.Outcome.StepNumber
	case a.Pending != nil:
		return a.Pending.RunID, a.Pending.StepNumber
	default:
		return a.Refusal.RunID, a.Refusal.StepNumber
	}
}

// fail ends the waiting for every open step, and for those to come.
func (r *Run) fail(err error) {
	r.mu.Lock()
	if r.denied == nil {
		r.denied = err
	}
	open := make([]*OpenStep, 0, len(r.steps))
	for _, s := range r.steps {
		open = append(open, s)
	}
	clear(r.steps)
	r.mu.Unlock()
	for _, s := range open {
		s.record.fail(err)
	}
}

// add takes a step in, if none of its number is open.
func (r *Run) add(s *OpenStep) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch other := r.steps[s.step.Number]; {
	case r.closed:
		return ErrClosed
	case other != nil && other != s:
		return fmt.Errorf("step %d: %w", s.step.Number, ErrStepOpen)
	}
	r.steps[s.step.Number] = s
	return nil
}

// release lets a step go that is settled still, now that no proposal of it can
// come in between.
func (r *Run) release(s *OpenStep) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.steps[s.step.Number] == s && s.record.settled() {
		delete(r.steps, s.step.Number)
	}
}

// forget lets a step go that was never proposed.
func (r *Run) forget(s *OpenStep) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.steps[s.step.Number] == s {
		delete(r.steps, s.step.Number)
	}
}

func (r *Run) listensTo(subject string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcomes == subject
}
