package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolbus/toolbus/internal/boottime"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// Service is the executor.
type Service struct {
	o        Options
	sessions *pipeline.SessionCache
	slots    *slots
	leases   *leases
	ready    chan struct{}
	running  sync.WaitGroup
	claimed  atomic.Int64 // unix nanoseconds of the last claim that was answered
	// work is the context of calls under way: it outlives the one that stops
	// the pulling.
	work context.Context //nolint:containedctx // set once by Run, the owner of every call
}

// New makes an executor; [Service.Run] makes it work.
func New(o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Service{
		o: o, sessions: pipeline.NewSessionCache(o.Store), slots: newSlots(o.Slots, o.share()),
		leases: newLeases(o.Store, o.Lease), ready: make(chan struct{}),
	}, nil
}

// Ready is closed once the service takes hints.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// LastClaim gives when a claim was last answered; zero before the first.
func (s *Service) LastClaim() time.Time {
	if n := s.claimed.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// Run takes hints until ctx ends, lets what runs finish for the drain timeout,
// and returns nil; an error is one that no waiting can mend.
func (s *Service) Run(ctx context.Context) error {
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	s.work = work
	var keeper sync.WaitGroup
	keeper.Go(func() { s.leases.keep(work) })
	err := s.consume(ctx)
	s.drain(cut)
	cut()
	keeper.Wait()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("executor: %w", err)
	}
	return nil
}

func (s *Service) consume(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	away := func() bool { return s.o.Store.Away() > 0 }
	freed := s.slots.waker()
	wakes := make([]<-chan struct{}, len(s.o.Targets))
	for i := range wakes {
		wakes[i] = s.slots.waker()
	}
	for i, target := range s.o.Targets {
		g.Go(func() error {
			return s.o.Bus.ConsumeBatch(ctx, subjects.StreamExecute, subjects.DurableExecutor(target), s.slots.free, wakes[i], away, s.hints)
		})
	}
	g.Go(func() error {
		s.servePark(ctx, freed)
		return nil
	})
	g.Go(func() error { return s.o.Bus.Subscribe(ctx, subjects.StopSubject, s.stop) })
	close(s.ready)
	return g.Wait() //nolint:wrapcheck // Run words it
}

// drain waits for calls under way, and cuts them after the timeout.
func (s *Service) drain(cut context.CancelFunc) {
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	timer := time.NewTimer(s.o.DrainTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		cut()
		<-done
	}
}

// hints handles one fetch: claim what slots allow, give the rest back.
func (s *Service) hints(ctx context.Context, ds []subjects.Delivery) []subjects.Verdict {
	verdicts := make([]subjects.Verdict, len(ds))
	var granted []pipeline.Hint
	var left []subjects.Publication
	for i, d := range ds {
		hints, target, err := decodeHints(d)
		if err != nil {
			verdicts[i] = s.bury(ctx, d)
			continue
		}
		verdicts[i] = subjects.Ack()
		mine, over := s.allot(hints)
		granted = append(granted, mine...)
		left = append(left, handBack(hints, over, target)...)
	}
	if err := s.claim(ctx, granted); err != nil {
		return retryAll(verdicts)
	}
	if err := errors.Join(s.o.Bus.Publish(ctx, left)...); err != nil {
		return retryAll(verdicts)
	}
	return verdicts
}

func retryAll(verdicts []subjects.Verdict) []subjects.Verdict {
	for i := range verdicts {
		if verdicts[i].Action == subjects.ActionAck {
			verdicts[i] = subjects.Retry(time.Second)
		}
	}
	return verdicts
}

func decodeHints(d subjects.Delivery) ([]pipeline.Hint, tool.Target, error) {
	at, err := subjects.ParseExecute(d.Subject)
	if err != nil {
		return nil, "", err //nolint:wrapcheck // only its presence matters
	}
	m, err := subjects.DecodeHints(d.Data)
	if err != nil {
		return nil, "", err //nolint:wrapcheck // only its presence matters
	}
	out := make([]pipeline.Hint, len(m.Hints))
	for i, h := range m.Hints {
		out[i].Tenant = at.Tenant
		if h.Batch != nil {
			out[i].Batch = *h.Batch
		} else {
			out[i].Call = *h.Call
		}
	}
	return out, at.Target, nil
}

// allot asks for slots; over lists the indexes of hints that found none.
func (s *Service) allot(hints []pipeline.Hint) (mine []pipeline.Hint, over []int) {
	for i, h := range hints {
		switch s.slots.take(h) {
		case granted:
			mine = append(mine, h)
		case noSlot:
			over = append(over, i)
		case parkedHint:
		}
	}
	return mine, over
}

// handBack composes a message of the hints for which there was no slot.
func handBack(hints []pipeline.Hint, over []int, target tool.Target) []subjects.Publication {
	if len(over) == 0 {
		return nil
	}
	subject, err := subjects.Execute(hints[0].Tenant, target)
	if err != nil {
		return nil
	}
	back := make([]subjects.Hint, len(over))
	for n, i := range over {
		if hints[i].Batch.IsZero() {
			back[n] = subjects.HintCall(hints[i].Call)
		} else {
			back[n] = subjects.HintBatch(hints[i].Batch)
		}
	}
	return []subjects.Publication{{Stream: subjects.StreamExecute, Subject: subject, Data: subjects.AppendHints(nil, back)}}
}

// bury records a hint that cannot be read. Nothing is lost with it: the row it
// may have meant is found by the sweep.
func (s *Service) bury(ctx context.Context, d subjects.Delivery) subjects.Verdict {
	err := s.o.Store.RecordDeadLetter(ctx, pipeline.DeadLetter{
		Kind: "hint", Subject: d.Subject, Reason: "malformed", Payload: d.Data, Deliveries: d.Deliveries,
	})
	if err != nil {
		return subjects.Retry(time.Second)
	}
	return subjects.Park("malformed")
}

// claim is step 9 for hints that have slots; unused slots are given back.
//
//nolint:contextcheck // calls live in the service's work context: they outlive the pulling
func (s *Service) claim(ctx context.Context, hints []pipeline.Hint) error {
	if len(hints) == 0 {
		return nil
	}
	unused := map[string]int{}
	for _, h := range hints {
		unused[h.Tenant]++
	}
	defer func() {
		for tenant, n := range unused {
			for range n {
				s.slots.give(tenant)
			}
		}
	}()
	handedOver := boottime.Now()
	claims, err := s.o.Store.Claim(ctx, &pipeline.ClaimRequest{
		Hints: hints, ID: tool.NewID(), Owner: s.o.Owner, Lease: s.o.Lease, Window: s.o.Window, MaximumAttempts: s.o.MaximumAttempts,
	})
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	s.claimed.Store(time.Now().UnixNano())
	for i := range claims {
		c := &claims[i]
		unused[c.TenantID]--
		s.o.Probe.At(ctx, pipeline.StepClaim, pipeline.After, c.ID, c.Class)
		call := s.leases.hold(s.work, c, handedOver)
		s.running.Go(func() { s.execute(call, c) })
	}
	return nil
}

// execute runs one call in its slot.
func (s *Service) execute(ctx context.Context, c *pipeline.Claim) {
	defer s.slots.give(c.TenantID)
	defer s.leases.release(c.ID)
	session, err := s.session(ctx, c)
	if err == nil {
		err = s.o.Executor.Execute(ctx, session, c)
	}
	if err != nil {
		s.o.Logger.WarnContext(ctx, "call was not ended here", "invocation_id", c.ID.String(), "attempt", c.Attempt, "cause", err.Error())
	}
}

// session reads the session of a call for as long as the lease holds. That the
// run is over does not end it: the call still has to be ended, and that takes
// the session.
func (s *Service) session(ctx context.Context, c *pipeline.Claim) (*pipeline.Session, error) {
	session, err := s.loadSession(ctx, c)
	if err == nil || !errors.Is(context.Cause(ctx), pipeline.ErrRunOver) || !c.StillHeld() {
		return session, err
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Lease/3)
	defer cancel()
	return s.loadSession(bound, c)
}

func (s *Service) loadSession(ctx context.Context, c *pipeline.Claim) (*pipeline.Session, error) {
	for {
		session, err := s.sessions.Get(ctx, c.TenantID, c.SessionID)
		if err == nil || errors.Is(err, pipeline.ErrNotFound) {
			return session, err //nolint:wrapcheck // the store words it
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("session: %w", context.Cause(ctx))
		}
	}
}

// servePark claims parked hints as slots free up.
func (s *Service) servePark(ctx context.Context, freed <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-freed:
		}
		if hints := s.slots.next(s.o.Slots); len(hints) > 0 {
			if err := s.claim(ctx, hints); err != nil && ctx.Err() == nil {
				s.o.Logger.WarnContext(ctx, "parked hints are left to the sweep", "hints", len(hints), "cause", err.Error())
			}
		}
	}
}

// stop is the doorbell of a run that is over.
func (s *Service) stop(d subjects.Delivery) {
	var m subjects.Stop
	if subjects.Decode(d.Data, &m) == nil {
		s.leases.look(m.TenantID, m.RunID)
	}
}
