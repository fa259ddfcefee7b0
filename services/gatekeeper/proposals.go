package gatekeeper

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/toolbus/toolbus/internal/observe"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// lastDelivery is the delivery on which a message that keeps failing is given
// up: refused, recorded and terminated.
const lastDelivery = 6

// retryAfter is how long a message waits that this process gave up because it
// stops.
const retryAfter = time.Second

// patience is how long something is tried again while the database answers: an
// error that lasts longer than that is a defect, and costs a delivery.
const patience = 30 * time.Second

// patiently does something until it works or ctx ends: an engine that is away
// is no reason to count a delivery, and a message that is held is kept alive by
// the bus. final says which errors no waiting can mend.
func (s *Service) patiently(ctx context.Context, final func(error) bool, do func() error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 5*time.Second
	here := time.Now() // since when the database has been answering
	for {
		err := do()
		if s.o.Store.Away() > 0 {
			here = time.Now()
		}
		if err == nil || ctx.Err() != nil || final(err) || time.Since(here) > patience {
			return err
		}
		timer := time.NewTimer(wait.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

func notFound(err error) bool { return errors.Is(err, pipeline.ErrNotFound) }

func unstorable(err error) bool { return errors.Is(err, pipeline.ErrUnstorable) }

func never(error) bool { return false }

// proposal handles one message of the PROPOSE queue.
func (s *Service) proposal(ctx context.Context, d subjects.Delivery) subjects.Verdict {
	at, err := subjects.ParsePropose(d.Subject)
	if err != nil {
		return s.bury(ctx, "-", "proposal", d, "subject", nil)
	}
	tenant, run := at.Tenant, at.Run
	p, err := subjects.ProposalDecoder{MaxTrust: s.o.MaxTrust[tenant], Run: run}.Decode(d.Data)
	if err != nil {
		return s.bury(ctx, tenant, "proposal", d, "malformed", malformed(run, d.Data, err))
	}
	if d.Deliveries >= lastDelivery {
		return s.bury(ctx, tenant, "proposal", d, "poison", refusal(&p, "malformed", "the proposal could not be handled"))
	}
	if !s.open.take(tenant) {
		return s.refuse(ctx, tenant, refusal(&p, "overloaded", "too many proposals of this tenant are under way"))
	}
	defer s.open.give(tenant)
	var session *pipeline.Session
	err = s.patiently(ctx, notFound, func() (err error) {
		session, err = s.sessions.Get(ctx, tenant, p.SessionID)
		return err
	})
	switch {
	case errors.Is(err, pipeline.ErrNotFound):
		return s.refuse(ctx, tenant, refusal(&p, "unknown_session", "no such session"))
	case err != nil:
		return s.later(ctx, "session", err)
	}
	trace := traceParent(d.Header)
	ruling, err := s.admitter.Admit(observe.Extract(ctx, map[string]string{"traceparent": trace}), session, &p, trace)
	switch {
	case errors.Is(err, pipeline.ErrUnstorable):
		return s.bury(ctx, tenant, "proposal", d, "unstorable", refusal(&p, "malformed", "calls: must hold values that can be stored"))
	case err != nil:
		return s.later(ctx, "admit", err)
	}
	return s.answer(ctx, tenant, &p, ruling)
}

// traceParent gives the trace context of a message if it is one: it becomes a
// column and a header, so nothing else may travel in its place.
func traceParent(header map[string]string) string {
	const form = "00-00000000000000000000000000000000-0000000000000000-00"
	value := header["traceparent"]
	if len(value) != len(form) {
		return ""
	}
	for i := range len(value) {
		c := value[i]
		dash := form[i] == '-'
		if dash != (c == '-') || !dash && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	return value
}

// answer sends the refusals of a ruling; outcomes, notices and hints travel by
// the outbox.
func (s *Service) answer(ctx context.Context, tenant string, p *subjects.Proposal, r pipeline.Ruling) subjects.Verdict {
	if len(r.Refusals) == 0 {
		s.o.Counted("")
		return subjects.Ack()
	}
	refusals := make([]*subjects.Refusal, len(r.Refusals))
	for i, f := range r.Refusals {
		refusals[i] = refusal(p, subjects.RefusalCode(f.Code), f.Message)
		refusals[i].Refusal.CallIDs = append(refusals[i].Refusal.CallIDs, f.CallIDs...)
	}
	return s.refuse(ctx, tenant, refusals...)
}

// refuse stores refusals in the outcome stream and only then settles the
// message.
func (s *Service) refuse(ctx context.Context, tenant string, refusals ...*subjects.Refusal) subjects.Verdict {
	if err := s.publishRefusals(ctx, tenant, refusals); err != nil {
		return s.later(ctx, "refusal", err)
	}
	return subjects.Ack()
}

func (s *Service) publishRefusals(ctx context.Context, tenant string, refusals []*subjects.Refusal) error {
	pubs := make([]subjects.Publication, 0, len(refusals))
	for i, r := range refusals {
		if r == nil || r.RunID.IsZero() {
			continue // nobody can be told
		}
		s.o.Counted(string(r.Refusal.Code))
		subject, err := subjects.OutcomeFor(tenant, r.RunID)
		if err != nil {
			return err //nolint:wrapcheck // the caller names it
		}
		data, err := json.Marshal(r)
		if err != nil {
			return err //nolint:wrapcheck // the caller names it
		}
		id := subjects.RefusalID(r.RunID, r.StepNumber, r.N)
		if i > 0 {
			id += ":" + string(r.Refusal.Code)
		}
		pubs = append(pubs, subjects.Publication{Stream: subjects.StreamOutcome, Subject: subject, ID: id, Data: data})
	}
	return s.patiently(ctx, never, func() error { return errors.Join(s.o.Bus.Publish(ctx, pubs)...) })
}

// bury records a message that can never work, answers it if anybody can be
// answered, and terminates it: in this order, so that nothing is dropped in
// silence.
func (s *Service) bury(ctx context.Context, tenant, kind string, d subjects.Delivery, reason string, r *subjects.Refusal) subjects.Verdict {
	err := s.patiently(ctx, unstorable, func() error {
		return s.o.Store.RecordDeadLetter(ctx, pipeline.DeadLetter{
			Tenant: tenant, Kind: kind, Subject: d.Subject, Reason: reason, Payload: d.Data, Deliveries: d.Deliveries,
		})
	})
	if err == nil {
		err = s.publishRefusals(ctx, tenant, []*subjects.Refusal{r})
	}
	if err != nil {
		return s.later(ctx, "dead letter", err)
	}
	s.o.Logger.WarnContext(ctx, "message terminated", "kind", kind, "tenant_id", tenant, "reason", reason)
	return subjects.Park(reason)
}

func (s *Service) later(ctx context.Context, what string, err error) subjects.Verdict {
	if ctx.Err() == nil {
		s.o.Logger.WarnContext(ctx, "message is handled again later", "step", what, "cause", err.Error())
	}
	return subjects.Retry(retryAfter)
}

func refusal(p *subjects.Proposal, code subjects.RefusalCode, message string) *subjects.Refusal {
	return &subjects.Refusal{
		RunID: p.RunID, StepNumber: p.StepNumber, N: p.N,
		Refusal: subjects.RefusalInfo{Code: code, CallIDs: []string{}, Message: message},
	}
}

// malformed answers a proposal that does not decode, as far as it can be read;
// the run in the subject is who is told.
func malformed(run tool.ID, data []byte, err error) *subjects.Refusal {
	sketch := subjects.SketchProposal(data)
	r := &subjects.Refusal{
		RunID: run, StepNumber: sketch.StepNumber, N: sketch.N,
		Refusal: subjects.RefusalInfo{Code: subjects.RefusedMalformed, CallIDs: sketch.CallIDs, Message: err.Error()},
	}
	if r.Refusal.CallIDs == nil {
		r.Refusal.CallIDs = []string{}
	}
	return r
}
