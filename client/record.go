package client

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/toolbus/toolbus/subjects"
)

// record is what is known of one step: its answers in the order in which they
// became known, each once. Whatever is delivered twice, by the subscription or
// by asking, is recognised here.
type record struct {
	mu sync.Mutex
	// calls are those of the step, in order.
	calls []string
	n     int
	log   []subjects.Answer
	// outcomes gives the place in log by call id.
	outcomes map[string]int
	// proposed are the calls of the latest proposal.
	proposed []string
	// refused are the calls that their latest proposal ended without an outcome.
	refused map[string]*RefusalError
	// seen holds the keys of notices and refusals.
	seen map[string]struct{}
	err  error
	// changed is closed and replaced with every change.
	changed chan struct{}
}

func newRecord(calls []subjects.Call, n int) *record {
	r := &record{
		n: n, outcomes: map[string]int{}, refused: map[string]*RefusalError{}, seen: map[string]struct{}{},
		changed: make(chan struct{}),
	}
	for i := range calls {
		r.calls = append(r.calls, calls[i].CallID)
	}
	r.proposed = r.calls
	return r
}

// take adds an answer and reports whether every call has ended now.
func (r *record) take(a subjects.Answer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var news bool
	switch {
	case a.Outcome != nil:
		news = r.takeOutcome(a.Outcome)
	case a.Pending != nil:
		p := a.Pending
		_, ended := r.outcomes[p.CallID]
		news = !ended && slices.Contains(r.calls, p.CallID) && r.first(subjects.PendingID(p.InvocationID, p.Pending.Ref))
	case a.Refusal != nil:
		news = r.takeRefusal(a.Refusal)
	}
	if news {
		r.log = append(r.log, a)
		r.signal()
	}
	return r.ended()
}

func (r *record) takeOutcome(o *subjects.Outcome) bool {
	if _, known := r.outcomes[o.CallID]; known || !slices.Contains(r.calls, o.CallID) {
		return false
	}
	r.outcomes[o.CallID] = len(r.log)
	delete(r.refused, o.CallID) // a call that was in flight when it was proposed again
	return true
}

// takeRefusal ends calls. One of an earlier n says nothing about the proposal
// that replaced it.
func (r *record) takeRefusal(f *subjects.Refusal) bool {
	ids := f.Refusal.CallIDs
	key := strings.Join(append([]string{"refusal", strconv.Itoa(f.N), string(f.Refusal.Code)}, ids...), " ")
	if f.N != r.n || !r.first(key) {
		return false
	}
	refusal := &RefusalError{Code: f.Refusal.Code, CallIDs: ids, Message: f.Refusal.Message}
	for _, id := range r.proposed {
		_, known := r.outcomes[id]
		if !known && (len(ids) == 0 || slices.Contains(ids, id)) {
			r.refused[id] = refusal
		}
	}
	return true
}

func (r *record) first(key string) bool {
	if _, seen := r.seen[key]; seen {
		return false
	}
	r.seen[key] = struct{}{}
	return true
}

func (r *record) signal() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *record) ended() bool {
	return len(r.outcomes)+len(r.refused) == len(r.calls)
}

// settled reports whether every call has ended, or the step has failed.
func (r *record) settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil || r.ended()
}

// fail ends the waiting.
func (r *record) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && !r.ended() {
		r.err = err
		r.signal()
	}
}

// wake has everyone who waits look again.
func (r *record) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signal()
}

// since gives the answers from place i on. Without any, ended or the error say
// that nothing is to be expected, else changed is closed when it is worth asking
// again.
func (r *record) since(i int) (news []subjects.Answer, ended bool, changed <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.log[i:]), r.ended(), r.changed, r.err
}

// open gives the calls that have not ended, in order.
func (r *record) open() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, id := range r.calls {
		_, ended := r.outcomes[id]
		if !ended && r.refused[id] == nil {
			out = append(out, id)
		}
	}
	return out
}

// raise begins the next proposal, of the calls in ids; none means every call
// without an outcome. It gives n and the calls to propose.
func (r *record) raise(ids []string) (n int, calls []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.calls {
		_, ended := r.outcomes[id]
		if slices.Contains(ids, id) || len(ids) == 0 && !ended {
			calls = append(calls, id)
			delete(r.refused, id)
		}
	}
	if len(calls) > 0 {
		r.n++
		r.proposed = calls
	}
	return r.n, calls
}

// results gives the outcomes so far in the order of the calls, and the refusals
// that stand.
func (r *record) results() ([]subjects.Outcome, []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	outcomes := make([]subjects.Outcome, 0, len(r.outcomes))
	var refusals []error
	for _, id := range r.calls {
		if i, ok := r.outcomes[id]; ok {
			outcomes = append(outcomes, *r.log[i].Outcome)
		}
		if e := r.refused[id]; e != nil && !slices.Contains(refusals, error(e)) {
			refusals = append(refusals, e)
		}
	}
	return outcomes, refusals
}
