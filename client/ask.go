package client

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// repeatAfter is when an answer that does not know a call of the proposal is
// taken to mean that something was lost, and the proposal is sent again.
const repeatAfter = 5 * time.Second

// askAfter gives when to ask what became of a step, counted from its proposal: a
// subscription may miss a message and nobody tells (the contract, section 2). It
// is after 1, 2, 5, then every 10 seconds; elapsed is the time of the last
// asking.
func askAfter(elapsed time.Duration) time.Duration {
	const first, second, third, period = time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second
	switch {
	case elapsed < first:
		return first
	case elapsed < second:
		return second
	case elapsed < third:
		return third
	}
	return third + (elapsed - third).Truncate(period) + period
}

// asker decides when to ask. Asking is done on behalf of whoever waits, by one
// of them at a time; while nobody waits nothing is asked.
type asker struct {
	// fill asks, once; elapsed counts from the proposal.
	fill func(ctx context.Context, elapsed time.Duration)
	// lost gives a channel that is closed at the next reconnect.
	lost func() <-chan struct{}
	// over is closed with the client.
	over <-chan struct{}

	mu       sync.Mutex
	began    time.Time
	next     time.Time
	asking   bool
	repeated time.Duration
}

// restart begins the schedule anew: something was proposed.
func (a *asker) restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began = time.Now()
	a.next = a.began.Add(askAfter(0))
	a.repeated = 0
}

// due gives the time until the next asking, and false while one is under way.
func (a *asker) due() (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Until(a.next), !a.asking
}

// begin takes the turn to ask, if nobody has it.
func (a *asker) begin() (elapsed time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking {
		return 0, false
	}
	a.asking = true
	return time.Since(a.began), true
}

func (a *asker) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking = false
	a.next = a.began.Add(askAfter(time.Since(a.began)))
}

// repeats reports whether to send the proposal again, ever more rarely.
func (a *asker) repeats(elapsed time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if elapsed < max(repeatAfter, 2*a.repeated) {
		return false
	}
	a.repeated = elapsed
	return true
}

// waiting is one caller that waits for a step.
type waiting struct {
	record *record
	asker  *asker
	ctx    context.Context //nolint:containedctx // that of the iteration, parent of what is asked for it
	cancel context.CancelFunc
	lost   <-chan struct{}
	asks   sync.WaitGroup
}

// Outcomes gives the answers to the step, each once, as they become known:
// outcomes, notices that a call waits, and refusals. It ends when every call has
// ended. A lost answer is asked for. Each iteration begins at the first answer;
// when ctx ends, the client is closed or the subscription is refused, the last
// pair is an error.
func (s *OpenStep) Outcomes(ctx context.Context) iter.Seq2[subjects.Answer, error] {
	return answers(ctx, s.record, &s.asker)
}

func answers(ctx context.Context, record *record, asker *asker) iter.Seq2[subjects.Answer, error] {
	return func(yield func(subjects.Answer, error) bool) {
		w := &waiting{record: record, asker: asker, lost: asker.lost()}
		w.ctx, w.cancel = context.WithCancel(ctx)
		defer w.asks.Wait()
		defer w.cancel()
		for next := 0; ; {
			news, ended, changed, err := record.since(next)
			for _, a := range news {
				if next++; !yield(a, nil) {
					return
				}
			}
			switch {
			case len(news) > 0:
				continue
			case ended:
				return
			case err == nil:
				err = w.await(changed)
			}
			if err != nil {
				yield(subjects.Answer{}, err)
				return
			}
		}
	}
}

// await waits for news and asks for them when it is time.
func (w *waiting) await(changed <-chan struct{}) error {
	for {
		var timer <-chan time.Time
		if d, ok := w.asker.due(); ok {
			t := time.NewTimer(d)
			defer t.Stop()
			timer = t.C
		}
		select {
		case <-changed:
			return nil
		case <-w.ctx.Done():
			return w.ctx.Err() //nolint:wrapcheck // the caller's own
		case <-w.asker.over:
			return ErrClosed
		case <-w.lost:
			w.lost = w.asker.lost()
		case <-timer:
		}
		w.ask()
	}
}

// ask asks beside the waiting, so that what arrives meanwhile is seen at once.
func (w *waiting) ask() {
	elapsed, ok := w.asker.begin()
	if !ok {
		return
	}
	w.asks.Go(func() {
		w.asker.fill(w.ctx, elapsed)
		w.asker.end()
		w.record.wake()
	})
}

// fill asks what is known of the step and records it. Where the answer does not
// hold what an open call needs, the proposal is sent again: it is never refused,
// it completes what is missing and repeats what was said, refusals and outcomes
// that the answer had no room for included.
func (s *OpenStep) fill(ctx context.Context, elapsed time.Duration) {
	c := s.run.session.client
	known, err := c.OutcomeGet(ctx, s.run.id, s.step.Number)
	if err != nil {
		if ctx.Err() == nil {
			c.log.WarnContext(ctx, "outcomes were not told", "run_id", s.run.id.String(), "cause", err.Error())
		}
		return
	}
	for _, a := range known.Answers {
		if run, step := address(&a); run == s.run.id && step == s.step.Number {
			s.take(a)
		}
	}
	unknown := slices.ContainsFunc(s.record.open(), func(id string) bool { return !known.mentions(id) })
	if !unknown && !known.More || !s.asker.repeats(elapsed) {
		return
	}
	s.mu.Lock()
	payloads := slices.Clone(s.payloads)
	s.mu.Unlock()
	for _, data := range payloads {
		if err := s.publish(ctx, data); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "proposal was not repeated", "run_id", s.run.id.String(), "cause", err.Error())
		}
	}
}

// StepState is what is recorded of a step.
type StepState struct {
	// Answers are outcomes of the calls that ended and notices of those that wait.
	Answers []subjects.Answer
	// Open are the calls that have neither.
	Open []string
	// More says that some of the calls in Open have an answer for which there was
	// no room; [Client.InvocationsGet] has it.
	More bool
}

func (s *StepState) mentions(callID string) bool {
	return slices.Contains(s.Open, callID) || slices.ContainsFunc(s.Answers, func(a subjects.Answer) bool {
		return a.Outcome != nil && a.Outcome.CallID == callID || a.Pending != nil && a.Pending.CallID == callID
	})
}

// OutcomeGet asks what is recorded of a step; a step that is unknown has
// nothing. Refusals are not recorded.
func (c *Client) OutcomeGet(ctx context.Context, run tool.ID, step int) (StepState, error) {
	var known subjects.OutcomeGetResponse
	err := c.ask(ctx, subjects.VerbOutcomeGet, subjects.OutcomeGetRequest{RunID: run, StepNumber: step}, &known)
	if err != nil {
		return StepState{}, err
	}
	state := StepState{Open: known.Open, More: known.More}
	for _, list := range [][]json.RawMessage{known.Outcomes, known.Pending} {
		for _, raw := range list {
			a, err := subjects.DecodeAnswer(raw)
			if err != nil {
				return StepState{}, err //nolint:wrapcheck // a field error says it all
			}
			state.Answers = append(state.Answers, a)
		}
	}
	return state, nil
}
