package executor

import (
	"context"
	"sync"
	"time"

	"github.com/toolbus/toolbus/internal/boottime"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// leases keeps what this process owns: it beats at a third of the lease, and
// cuts a call by its own clock before the lease can end. Safe for concurrent
// use.
type leases struct {
	store  Store
	lease  time.Duration
	margin time.Duration
	// now is a clock that counts sleep.
	now func() time.Duration

	// ring asks for a beat before its time.
	ring chan struct{}

	mu   sync.Mutex
	held map[tool.ID]*holding
}

type holding struct {
	beat   pipeline.Heartbeat
	run    tool.ID
	tenant string
	cancel context.CancelCauseFunc
	// until is when the lease is given up, on the clock that counts sleep; last is
	// when it is no longer kept: a tool that ignores its deadline must not hold
	// its call for ever.
	until, last time.Duration
}

func newLeases(store Store, lease time.Duration) *leases {
	return &leases{store: store, lease: lease, margin: lease / 6, now: boottime.Now, ring: make(chan struct{}, 1), held: map[tool.ID]*holding{}}
}

// hold registers a claim whose request was handed over at the given time, and
// gives the context under which the call runs.
func (l *leases) hold(ctx context.Context, c *pipeline.Claim, handedOver time.Duration) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	h := &holding{
		beat: pipeline.Heartbeat{Tenant: c.TenantID, ID: c.ID, Attempt: c.Attempt, Claim: c.ClaimID},
		run:  c.RunID, tenant: c.TenantID, cancel: cancel, until: handedOver + l.lease - l.margin,
		last: handedOver + c.DeadlineAt.Sub(c.Now) + l.lease,
	}
	l.mu.Lock()
	l.held[c.ID] = h
	l.mu.Unlock()
	c.StillHeld = func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.now() < h.until
	}
	return ctx
}

func (l *leases) release(id tool.ID) {
	l.mu.Lock()
	h := l.held[id]
	delete(l.held, id)
	l.mu.Unlock()
	if h != nil {
		h.cancel(context.Canceled)
	}
}

// look asks at once whether a run is over, if a call of it is held. The message
// that says so is not believed: anybody on the bus may have sent it, and the row
// knows.
func (l *leases) look(tenant string, run tool.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		if h.tenant == tenant && h.run == run {
			select {
			case l.ring <- struct{}{}:
			default: // one is asked for already
			}
			return
		}
	}
}

// keep beats until ctx ends.
func (l *leases) keep(ctx context.Context) {
	tick := time.NewTicker(l.lease / 12)
	defer tick.Stop()
	var last time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.ring:
			last = l.now()
			l.beat(ctx)
		case <-tick.C:
		}
		l.cutLost()
		if now := l.now(); now-last >= l.lease/3 {
			last = now
			l.beat(ctx)
		}
	}
}

// cutLost ends calls whose lease could not be kept.
func (l *leases) cutLost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, h := range l.held {
		if now >= h.until {
			h.cancel(pipeline.ErrCut)
		}
	}
}

func (l *leases) beat(ctx context.Context) {
	now := l.now()
	l.mu.Lock()
	holdings := make([]*holding, 0, len(l.held))
	beats := make([]pipeline.Heartbeat, 0, len(l.held))
	for _, h := range l.held {
		if now > h.last {
			continue
		}
		holdings = append(holdings, h)
		beats = append(beats, h.beat)
	}
	l.mu.Unlock()
	if len(beats) == 0 {
		return
	}
	asked := l.now()
	bound, cancel := context.WithTimeout(ctx, l.lease/3)
	defer cancel()
	verdicts, err := l.store.Heartbeat(bound, beats, l.lease)
	if err != nil {
		return // the next beat, or the clock
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, h := range holdings {
		switch {
		case !verdicts[i].Held:
			h.cancel(pipeline.ErrCut)
		case verdicts[i].RunOver:
			h.until = asked + l.lease - l.margin
			h.cancel(pipeline.ErrRunOver)
		default:
			h.until = asked + l.lease - l.margin
		}
	}
}
