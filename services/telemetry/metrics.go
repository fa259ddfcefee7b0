package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolbus/toolbus/internal/observe"
	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// unresolvedVersion is the version of a call whose tool is in no pin.
const unresolvedVersion = "-"

// The ways a call ends that its outcome does not tell apart: a cancelled call
// is nobody's failure, and must not page anybody.
const (
	endCancelled = "cancelled"
	endTimedOut  = "timed_out"
)

// ends lists every way a call may end.
func ends() []string {
	all := []string{endCancelled, endTimedOut}
	for _, status := range tool.OutcomeStatuses() {
		all = append(all, string(status))
	}
	return all
}

// count counts an event that is sent for the first time.
func (s *Service) count(e *event) {
	if e.call == nil {
		return
	}
	name := e.call.ToolName
	if e.call.ToolVersion == unresolvedVersion {
		name = observe.UnknownName
	}
	switch e.name {
	case subjects.EventProposed:
		s.o.Metrics.CallSeen(name, string(e.call.ToolSource))
	case subjects.EventApprovalExpired:
		s.o.Metrics.ApprovalExpired()
	case subjects.EventCompleted, subjects.EventDenied, subjects.EventFailed, subjects.EventUncertain:
		if e.call.OutcomeStatus != nil {
			s.o.Metrics.CallEnded(callEnd(name, e.call))
		}
	}
}

func callEnd(name string, c *subjects.CallEvent) observe.CallEnd {
	status := *c.OutcomeStatus
	end := observe.CallEnd{
		Tool: name, Source: string(c.ToolSource), Outcome: string(status), End: string(status), Truncated: c.Truncated,
		Failed:    status == tool.OutcomeFailed || status == tool.OutcomeUnavailable,
		Uncertain: status == tool.OutcomeUncertain,
	}
	if c.ReasonCode != nil {
		end.Reason = *c.ReasonCode
	}
	if status == tool.OutcomeFailed {
		switch {
		case covers(outcome.CodeRunCancelled, end.Reason):
			end.End = endCancelled
		case covers(outcome.CodeTimeout, end.Reason):
			end.End = endTimedOut
		}
	}
	if c.DurationMS != nil {
		end.Ran, end.Duration = true, time.Duration(*c.DurationMS)*time.Millisecond
	}
	if c.OutputBytes != nil {
		end.OutputBytes = *c.OutputBytes
	}
	return end
}

// covers reports whether a reason is the listed code or a longer one of it.
func covers(code, reason string) bool {
	return reason == code || strings.HasPrefix(reason, code+".")
}

// sample looks at the tables again and again until ctx ends.
func (s *Service) sample(ctx context.Context) {
	for {
		err := s.sampleOnce(ctx)
		if err != nil && ctx.Err() == nil {
			s.o.Logger.WarnContext(ctx, "tables cannot be read for metrics", "cause", err.Error())
		}
		s.mu.Lock()
		s.sampled = err
		s.mu.Unlock()
		if !sleep(ctx, s.o.Sample) {
			return
		}
	}
}

func (s *Service) sampleOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(s.o.Sample, time.Second))
	defer cancel()
	oldest, oldestErr := s.o.Tables.Oldest(ctx)
	outboxAge, entries, outboxErr := s.o.Tables.OutboxAge(ctx)
	pending, approvalAge, approvalErr := s.o.Tables.PendingApprovals(ctx)
	dead, deadErr := s.o.Tables.DeadLetters(ctx)
	if err := errors.Join(oldestErr, outboxErr, approvalErr, deadErr); err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	b := observe.Backlog{
		OldestOpen: map[string]time.Duration{}, OutboxOldest: outboxAge, OutboxEntries: entries,
		PendingApprovals: pending, OldestApproval: approvalAge, DeadLetters: dead,
	}
	for _, status := range tool.Statuses() {
		if !status.Terminal() {
			b.OldestOpen[string(status)] = oldest[status]
		}
	}
	s.o.Metrics.SetBacklog(b)
	return nil
}

// tables is the health check that tells how the last look went.
func (s *Service) tables(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sampled
}
