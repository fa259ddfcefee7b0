package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/toolbus/toolbus/announce"
	"github.com/toolbus/toolbus/internal/testsignal"
	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// Store is what recovery reads and writes.
type Store interface {
	ExpiredLeases(ctx context.Context, retry time.Duration, limit int) ([]pipeline.Swept, error)
	Stalled(ctx context.Context, retry time.Duration, limit int) ([]pipeline.Swept, error)
	IdleEnded(ctx context.Context, limit int) ([]pipeline.Swept, error)
	Hint(ctx context.Context, found []pipeline.Swept) error
	End(ctx context.Context, e *pipeline.Ending) (pipeline.EndVerdict, error)
	TakeOutbox(ctx context.Context, age time.Duration, limit int) ([]pipeline.Announcement, error)
	Published(ctx context.Context, done []pipeline.Announcement) error
	RecordDeadLetter(ctx context.Context, d pipeline.DeadLetter) error
}

// Bus publishes.
type Bus interface {
	Publish(ctx context.Context, pubs []subjects.Publication) []error
}

// Options configure the service.
type Options struct {
	Store  Store
	Bus    Bus
	Table  *outcome.Table
	Logger *slog.Logger
	// Sweep is the pause between two sweeps, jittered by a quarter.
	Sweep time.Duration
	// Retry is how long a hinted call is left alone.
	Retry time.Duration
	// Takeover is the age at which the relay publishes what its process did not.
	Takeover        time.Duration
	MaximumAttempts int
	// Unpublishable reports whether an error of Publish lies in the message.
	Unpublishable func(error) bool
}

// Service is recovery.
type Service struct {
	o     Options
	ready chan struct{}
	// Swept is signalled after every sweep with the number of calls it acted on.
	Swept testsignal.Signal[int]
}

// New makes a recovery service; [Service.Run] makes it work.
func New(o Options) (*Service, error) {
	switch {
	case o.Store == nil, o.Bus == nil, o.Table == nil:
		return nil, errors.New("recovery: store, bus and reason table are required")
	case o.Sweep <= 0, o.Retry <= 0, o.Takeover <= 0, o.MaximumAttempts <= 0:
		return nil, errors.New("recovery: sweep, retry, takeover and maximum attempts must be positive")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Unpublishable == nil {
		o.Unpublishable = func(error) bool { return false }
	}
	return &Service{o: o, ready: make(chan struct{})}, nil
}

// Ready is closed once the first sweep is under way.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// sweepLimit bounds what one sweep looks at; what is beyond it is looked at by
// the next, which follows at once.
const sweepLimit = 500

// Run sweeps until ctx ends. A sweep that fails is logged and done again: no
// single failure strands a call.
func (s *Service) Run(ctx context.Context) error {
	close(s.ready)
	var loops sync.WaitGroup
	loops.Go(func() { s.loop(ctx, "relay", s.o.Takeover/2, s.relay) })
	s.loop(ctx, "sweep", s.o.Sweep, s.SweepOnce)
	loops.Wait()
	return nil
}

func (s *Service) loop(ctx context.Context, name string, pause time.Duration, once func(context.Context) (int, error)) {
	failures := 0
	for {
		n, err := once(ctx)
		wait := pause - pause/4 + rand.N(pause/2+1)
		switch {
		case err != nil && ctx.Err() == nil:
			failures++
			wait = min(time.Duration(failures)*wait, 5*time.Second)
			s.o.Logger.WarnContext(ctx, "sweep failed and is done again", "sweep", name, "cause", err.Error())
		case n >= sweepLimit:
			failures, wait = 0, 0
		default:
			failures = 0
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// SweepOnce is one round of all sweeps over calls. It returns how many calls it
// acted on.
func (s *Service) SweepOnce(ctx context.Context) (int, error) {
	acted := 0
	for _, sweep := range []func(context.Context) (int, error){s.expired, s.idle, s.stalled} {
		n, err := sweep(ctx)
		acted += n
		if err != nil {
			return acted, err
		}
	}
	s.Swept.Send(acted)
	return acted, nil
}

// expired applies the recovery table to calls whose lease has ended.
func (s *Service) expired(ctx context.Context) (int, error) {
	found, err := s.o.Store.ExpiredLeases(ctx, s.o.Retry, sweepLimit)
	if err != nil {
		return 0, fmt.Errorf("expired leases: %w", err)
	}
	var again []pipeline.Swept
	var ends []*pipeline.Ending
	for i := range found {
		w := &found[i]
		verdict, code := pipeline.Recover(pipeline.Expired{
			Class: w.Class, EffectSent: w.EffectSent(), Attempt: w.Attempt, MaximumAttempts: s.o.MaximumAttempts,
			DeadlinePassed: w.DeadlinePassed, RunOver: w.RunStatus != pipeline.RunOpen,
		})
		if verdict == pipeline.RunAgain {
			again = append(again, *w)
			continue
		}
		ends = append(ends, s.verdict(w, verdict, code))
	}
	if err := s.end(ctx, ends); err != nil {
		return len(ends), err
	}
	if len(again) == 0 {
		return len(ends), nil
	}
	return len(found), s.o.Store.Hint(ctx, again) //nolint:wrapcheck // the store words it
}

// verdict ends a call whose lease has ended, provided that it still has.
func (s *Service) verdict(w *pipeline.Swept, v pipeline.Verdict, code string) *pipeline.Ending {
	end := pipeline.End{Outcome: tool.OutcomeFailed, Reason: code}
	if v == pipeline.GiveUncertain {
		end.Outcome = tool.OutcomeUncertain
	}
	if w.RunStatus == pipeline.RunFailed && code == outcome.CodeRunCancelled {
		end.Reason = outcome.CodeNotStarted
		if !w.StartedAt.IsZero() {
			end.Reason = outcome.CodeRunCancelled
		}
	}
	sent := w.EffectSent()
	return &pipeline.Ending{
		Row: &w.Invocation, Settlement: pipeline.Settle(s.o.Table, w.ToolName, end), Expect: tool.Running, Attempt: w.Attempt,
		LeaseOver: true, EffectSent: &sent, HotRun: true,
	}
}

// idle ends calls that no worker holds and whose time is over.
func (s *Service) idle(ctx context.Context) (int, error) {
	found, err := s.o.Store.IdleEnded(ctx, sweepLimit)
	if err != nil {
		return 0, fmt.Errorf("idle calls: %w", err)
	}
	ends := make([]*pipeline.Ending, len(found))
	for i := range found {
		ends[i] = s.idleEnd(&found[i])
	}
	return len(ends), s.end(ctx, ends)
}

func (s *Service) idleEnd(w *pipeline.Swept) *pipeline.Ending {
	end := pipeline.End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeTimeout}
	decision := &pipeline.ApprovalDecision{Decision: "withdrawn"}
	switch {
	case w.RunStatus == pipeline.RunCancelled:
		end.Reason = outcome.CodeRunCancelled
	case w.RunStatus != pipeline.RunOpen:
		end.Reason = outcome.CodeNotStarted
	case w.ApprovalExpired && !w.DeadlinePassed:
		end.Outcome, end.Reason = tool.OutcomeDenied, outcome.CodeApprovalExpired
	}
	if w.ApprovalExpired {
		decision.Decision = "expired"
	}
	e := &pipeline.Ending{
		Row: &w.Invocation, Settlement: pipeline.Settle(s.o.Table, w.ToolName, end), Expect: w.Status, Attempt: w.Attempt,
		Suspended: w.SuspendedKind != "", HotRun: true,
	}
	if w.Status == tool.WaitingForApproval {
		e.Decision = decision
	}
	return e
}

// end writes endings side by side, so that they share flushes. One that was
// overtaken is nobody's loss.
func (s *Service) end(ctx context.Context, ends []*pipeline.Ending) error {
	errs := make([]error, len(ends))
	var wg sync.WaitGroup
	for i, e := range ends {
		wg.Go(func() { _, errs[i] = s.o.Store.End(ctx, e) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// stalled hints what could be claimed and was not.
func (s *Service) stalled(ctx context.Context) (int, error) {
	found, err := s.o.Store.Stalled(ctx, s.o.Retry, sweepLimit)
	if err != nil || len(found) == 0 {
		return 0, err //nolint:wrapcheck // the store words it
	}
	return len(found), s.o.Store.Hint(ctx, found) //nolint:wrapcheck // the store words it
}

// relay publishes what its process did not. No transaction is open meanwhile: an
// entry is taken for some seconds, and given up again by time alone.
func (s *Service) relay(ctx context.Context) (int, error) {
	taken, err := s.o.Store.TakeOutbox(ctx, s.o.Takeover, sweepLimit)
	if err != nil || len(taken) == 0 {
		return 0, err //nolint:wrapcheck // the store words it
	}
	var pubs []subjects.Publication
	ends := make([]int, len(taken))
	for i, a := range taken {
		one, err := announce.Compose(a)
		if err != nil {
			s.o.Logger.ErrorContext(ctx, "message cannot be composed", "outbox_id", a.Outbox.String(), "cause", err.Error())
		}
		pubs = append(pubs, one...)
		ends[i] = len(pubs)
	}
	errs := s.o.Bus.Publish(ctx, pubs)
	var done []pipeline.Announcement
	var failed error
	from := 0
	for i, a := range taken {
		err := s.sent(ctx, a, pubs[from:ends[i]], errs[from:ends[i]])
		from = ends[i]
		if err == nil {
			done = append(done, a)
		} else {
			failed = err
		}
	}
	return len(done), errors.Join(s.o.Store.Published(ctx, done), failed)
}

// contentTries is how often a message may fail for its own content.
const contentTries = 3

// sent says whether an entry is done with: all its messages are stored, or the
// ones that never can be are in the dead letters.
func (s *Service) sent(ctx context.Context, a pipeline.Announcement, pubs []subjects.Publication, errs []error) error {
	for i, err := range errs {
		if err == nil {
			continue
		}
		if !s.o.Unpublishable(err) || a.Tries < contentTries {
			return fmt.Errorf("publish: %w", err)
		}
		dead := s.o.Store.RecordDeadLetter(ctx, pipeline.DeadLetter{
			Tenant: a.Tenant, Kind: "publication", Subject: pubs[i].Subject, Reason: "unpublishable", Payload: pubs[i].Data, Deliveries: a.Tries,
		})
		if dead != nil {
			return dead //nolint:wrapcheck // the store words it
		}
	}
	return nil
}
