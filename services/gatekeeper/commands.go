package gatekeeper

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// command handles one message of the COMMAND queue. The actor is the token of
// the subject, which the bus binds to the publisher's identity.
func (s *Service) command(ctx context.Context, d subjects.Delivery) subjects.Verdict {
	at, err := subjects.ParseCommand(d.Subject)
	if err != nil {
		return s.bury(ctx, "-", "command", d, "subject", nil)
	}
	tenant, kind, actor := at.Tenant, at.Kind, at.Actor
	c, err := subjects.DecodeCommand(kind, d.Data)
	if err != nil {
		return s.refuseCommand(ctx, tenant, kind, actor, d)
	}
	if d.Deliveries >= lastDelivery {
		return s.bury(ctx, tenant, "command", d, "poison", nil)
	}
	m := pipeline.CommandMeta{Tenant: tenant, ID: c.ID(), Kind: string(kind), Actor: actor}
	err = s.patiently(ctx, unstorable, func() error { return s.apply(ctx, m, c) })
	switch {
	case errors.Is(err, pipeline.ErrUnstorable):
		return s.refuseCommand(ctx, tenant, kind, actor, d)
	case err != nil:
		return s.later(ctx, "command", err)
	}
	return subjects.Ack()
}

// refuseCommand settles a body that does not decode, when it names itself, and
// records it in any case.
func (s *Service) refuseCommand(ctx context.Context, tenant string, kind subjects.CommandKind, actor string, d subjects.Delivery) subjects.Verdict {
	if id := subjects.SketchCommand(d.Data); id != "" {
		m := pipeline.CommandMeta{Tenant: tenant, ID: id, Kind: string(kind), Actor: actor}
		err := s.patiently(ctx, unstorable, func() error {
			_, err := s.o.Store.RefuseCommand(ctx, m, "malformed")
			return err
		})
		if err != nil {
			return s.later(ctx, "command", err)
		}
	}
	return s.bury(ctx, tenant, "command", d, "malformed", nil)
}

func (s *Service) apply(ctx context.Context, m pipeline.CommandMeta, c subjects.Command) error {
	var err error
	switch c := c.(type) {
	case *subjects.Approval:
		err = s.decide(ctx, m, c)
	case *subjects.Cancel:
		_, err = s.o.Store.EndRun(ctx, m, c.RunID, pipeline.RunCancelled, c.Reason, outcome.CodeRunCancelled, s.settle)
		s.stop(ctx, m.Tenant, c.RunID, err)
	case *subjects.RunEnd:
		_, err = s.o.Store.EndRun(ctx, m, c.RunID, pipeline.RunEnded, "", outcome.CodeNotStarted, s.settle)
		s.stop(ctx, m.Tenant, c.RunID, err)
	case *subjects.SessionClose:
		_, err = s.o.Store.CloseSession(ctx, m, c.SessionID)
	case *subjects.Revoke:
		_, err = s.o.Store.Revoke(ctx, m, c.Principal, c.Scopes)
	case *subjects.Review:
		_, err = s.o.Store.Review(ctx, m, c.InvocationID, string(c.Verdict), c.Comment)
	case *subjects.Resume:
		answer := c.Content
		if len(answer) == 0 {
			answer = c.ChildResult
		}
		_, err = s.o.Store.Resume(ctx, m, c.InvocationID, answer)
	}
	return err
}

// decide applies an approval: steps 2, 3 and 6 are asked again first, outside
// the transaction, since they are pure; revocations are facts it reads.
func (s *Service) decide(ctx context.Context, m pipeline.CommandMeta, c *subjects.Approval) error {
	row, err := s.o.Store.WaitingCall(ctx, m.Tenant, c.ApprovalID)
	if err != nil && !errors.Is(err, pipeline.ErrNotFound) {
		return err //nolint:wrapcheck // the store words it
	}
	var again pipeline.Reentry
	if err == nil {
		session, err := s.sessions.Get(ctx, m.Tenant, row.SessionID)
		if err != nil {
			return err
		}
		again = s.admitter.Reenter(ctx, session, &row)
	}
	approve := c.Decision == subjects.DecisionApprove
	_, err = s.o.Store.Decide(ctx, m, c.ApprovalID, row, again, func(w pipeline.Waiting) pipeline.Resolution {
		return pipeline.ResolveApproval(w, approve, m.Actor, c.Comment, again)
	}, s.settle)
	return err //nolint:wrapcheck // the store words it
}

func (s *Service) settle(row *pipeline.Invocation, end pipeline.End) pipeline.Settlement {
	return pipeline.Settle(s.o.Table, row.ToolName, end)
}

// stop rings the doorbell of executors that run calls of a run that is over.
// It may be lost: their next heartbeat says the same.
func (s *Service) stop(ctx context.Context, tenant string, run tool.ID, err error) {
	if err != nil {
		return
	}
	data, err := json.Marshal(subjects.Stop{TenantID: tenant, RunID: run})
	if err == nil {
		err = s.o.Bus.Notify(subjects.StopSubject, data)
	}
	if err != nil {
		s.o.Logger.DebugContext(ctx, "doorbell was not rung", "run_id", run.String(), "cause", err.Error())
	}
}
