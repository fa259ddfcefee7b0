package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// Step is one model step, whole: every call that the model asked for (the
// contract, section 3, "Proposal").
type Step struct {
	// Number counts the steps of the run, from 0.
	Number int
	// N is 0 at first. A runtime that proposes a step of an earlier process again
	// raises it; [OpenStep.Repropose] does so by itself.
	N int
	// DeadlineAt bounds the calls; zero leaves the run's own deadline.
	DeadlineAt time.Time
	// OriginTrust labels what made the model ask; empty means
	// [tool.ExternalUntrusted].
	OriginTrust tool.Trust
	// Calls are 1 to 128, each with a call id of its own. Nil arguments stand for
	// the empty object.
	Calls []subjects.Call
	// OnPending, unless nil, is called by [OpenStep.Wait] for each notice that a
	// call waits for a person or a child run, once per notice.
	OnPending func(subjects.Pending)
}

// OpenStep is a step that was proposed. It collects answers whether or not
// anybody waits. Safe for concurrent use.
type OpenStep struct {
	run    *Run
	step   Step
	record *record
	asker  asker

	mu sync.Mutex
	// payloads are the proposals so far; repeating them is harmless.
	payloads [][]byte
}

// Propose proposes a step and returns once the bus has stored the proposal. It
// subscribes to the run's outcomes before. A proposal outside the grammar is a
// [*subjects.FieldError], one above 768 KiB is [ErrTooLarge]; neither is sent.
// While the bus does not acknowledge, the same proposal is sent again: it is
// recognised.
func (r *Run) Propose(ctx context.Context, step Step) (*OpenStep, error) {
	step.Calls = slices.Clone(step.Calls)
	for i := range step.Calls {
		if step.Calls[i].Arguments == nil {
			step.Calls[i].Arguments = json.RawMessage(`{}`)
		}
	}
	s := &OpenStep{run: r, step: step, record: newRecord(step.Calls, step.N)}
	s.asker = asker{
		fill: s.fill, lost: r.session.client.reconnected, over: r.session.client.closed,
	}
	data, err := s.encode(step.N, step.Calls)
	if err != nil {
		return nil, fmt.Errorf("propose: %w", err)
	}
	if err := r.listen(ctx); err != nil {
		return nil, fmt.Errorf("propose: %w", err)
	}
	if err := s.propose(ctx, data); err != nil {
		r.forget(s)
		return nil, err
	}
	return s, nil
}

// Repropose proposes calls of the step again under a raised n: those with the
// given ids, or without any those that have no outcome. Calls that ended give
// their recorded outcome, those that wait a notice, those at work the refusal
// concurrency_conflict, and those that were refused are judged anew. It does
// nothing when there is nothing to propose.
func (s *OpenStep) Repropose(ctx context.Context, callIDs ...string) error {
	n, ids := s.record.raise(callIDs)
	if len(ids) == 0 {
		return nil
	}
	calls := slices.Clone(s.step.Calls)
	calls = slices.DeleteFunc(calls, func(c subjects.Call) bool { return !slices.Contains(ids, c.CallID) })
	data, err := s.encode(n, calls)
	if err != nil {
		return fmt.Errorf("propose again: %w", err)
	}
	return s.propose(ctx, data)
}

// N is the n of the latest proposal.
func (s *OpenStep) N() int {
	s.record.mu.Lock()
	defer s.record.mu.Unlock()
	return s.record.n
}

// Number is the step's number in its run.
func (s *OpenStep) Number() int { return s.step.Number }

// Wait waits until every call of the step has ended and gives the outcomes in
// the order of the calls. Calls that were refused have none: they are in the
// error, a [*RefusalError], beside the outcomes of the others. When ctx ends
// first, the outcomes so far come with its error, and Wait may be called again.
func (s *OpenStep) Wait(ctx context.Context) ([]subjects.Outcome, error) {
	for answer, err := range s.Outcomes(ctx) {
		if err != nil {
			outcomes, _ := s.record.results()
			return outcomes, err
		}
		if answer.Pending != nil && s.step.OnPending != nil {
			s.step.OnPending(*answer.Pending)
		}
	}
	outcomes, refusals := s.record.results()
	if len(refusals) == 1 {
		return outcomes, refusals[0]
	}
	return outcomes, errors.Join(refusals...)
}

// RunError gives the breaker that a call of this step tripped, empty for none so
// far: tool_policy_denied or tool_loop_detected. The run has failed then, and
// what is proposed in it is refused as run_failed.
func (s *OpenStep) RunError() string {
	outcomes, _ := s.record.results()
	for i := range outcomes {
		if e := outcomes[i].RunError; e != nil {
			return *e
		}
	}
	return ""
}

// SynthesisOnly reports whether the step ended with the word that every call of
// the run's next step will fail: the model should answer with what it has.
func (s *OpenStep) SynthesisOnly() bool {
	outcomes, _ := s.record.results()
	return slices.ContainsFunc(outcomes, func(o subjects.Outcome) bool { return o.SynthesisOnly })
}

func (s *OpenStep) encode(n int, calls []subjects.Call) ([]byte, error) {
	p := subjects.Proposal{
		SessionID: s.run.session.id, RunID: s.run.id, StepNumber: s.step.Number, N: n,
		DeadlineAt: s.step.DeadlineAt.UTC(), OriginTrust: s.step.OriginTrust, Calls: calls,
	}
	if s.step.DeadlineAt.IsZero() {
		p.DeadlineAt = time.Time{}
	}
	size := 0
	for i := range calls {
		size += len(calls[i].Arguments)
	}
	if size > 2*subjects.MaxProposalBytes { // no need to encode it to know
		return nil, ErrTooLarge
	}
	if data, err := json.Marshal(p); err == nil && len(data) > subjects.MaxProposalBytes {
		return nil, ErrTooLarge
	}
	// How much a tenant may claim is its gatekeeper's to say.
	data, err := subjects.ProposalDecoder{MaxTrust: tool.TrustedConfiguration, Run: s.run.id}.Encode(p)
	if err != nil {
		return nil, err //nolint:wrapcheck // a field error says it all
	}
	return data, nil
}

func (s *OpenStep) propose(ctx context.Context, data []byte) error {
	if err := s.run.add(s); err != nil {
		return fmt.Errorf("propose: %w", err)
	}
	s.mu.Lock()
	s.payloads = append(s.payloads, data)
	s.mu.Unlock()
	s.asker.restart()
	s.record.wake()
	return s.publish(ctx, data)
}

func (s *OpenStep) publish(ctx context.Context, data []byte) error {
	c := s.run.session.client
	subject, err := subjects.Propose(c.options.Tenant, s.run.id)
	if err != nil {
		return fmt.Errorf("propose: %w", err)
	}
	if err := c.publish(ctx, subjects.StreamPropose, subject, data); err != nil {
		return fmt.Errorf("propose: %w", err)
	}
	return nil
}

// take records an answer and lets the run forget a step that has ended.
func (s *OpenStep) take(a subjects.Answer) {
	if s.record.take(a) {
		s.run.release(s)
	}
}
