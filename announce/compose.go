// Package announce turns what a committed transition owes the world into
// messages, and publishes them: at once and asynchronously from the process that
// committed ([Publisher]), later by the relay in the recovery service, which
// composes the same bytes from the tables.
package announce

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// Compose gives the messages of an announcement: hints and outcomes before
// events, since a model and an executor wait for them. Hints of one target
// travel together. The same facts give the same bytes. An error names the
// notice that cannot be spelled; the others are still given.
func Compose(a pipeline.Announcement) ([]subjects.Publication, error) {
	c := composer{tenant: a.Tenant, hints: map[tool.Target][]subjects.Hint{}}
	for i := range a.Notices {
		c.add(&a.Notices[i])
	}
	c.flushHints()
	return append(c.first, c.events...), c.err
}

type composer struct {
	tenant string
	first  []subjects.Publication
	events []subjects.Publication
	hints  map[tool.Target][]subjects.Hint
	order  []tool.Target
	trace  map[string]string
	err    error
}

func (c *composer) add(n *pipeline.Notice) {
	switch n.Kind {
	case pipeline.NoticeHint:
		c.hint(n.Call)
	case pipeline.NoticeOutcome:
		c.outcome(n.Call, n.Seq)
	case pipeline.NoticePending:
		c.pending(n.Call, n.Approval)
	case pipeline.NoticeEvent:
		c.event(n)
	case pipeline.NoticeOther:
		c.other(n.Other)
	}
}

func (c *composer) fail(what string, err error) {
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("%s: %w", what, err)
	}
}

func header(i *pipeline.Invocation) map[string]string {
	if i.TraceParent == "" {
		return nil
	}
	return map[string]string{"traceparent": i.TraceParent}
}

func (c *composer) hint(i *pipeline.Invocation) {
	if _, ok := c.hints[i.Target]; !ok {
		c.order = append(c.order, i.Target)
	}
	h := subjects.HintCall(i.ID)
	if !i.Group.IsZero() {
		h = subjects.HintBatch(i.Group)
	}
	c.hints[i.Target] = append(c.hints[i.Target], h)
	c.trace = header(i)
}

func (c *composer) flushHints() {
	for _, target := range c.order {
		subject, err := subjects.Execute(c.tenant, target)
		if err != nil {
			c.fail("hint", err)
			continue
		}
		for hints := c.hints[target]; len(hints) > 0; {
			n := min(len(hints), subjects.MaxHints)
			c.first = append(c.first, subjects.Publication{
				Stream: subjects.StreamExecute, Subject: subject, Data: subjects.AppendHints(nil, hints[:n]), Header: c.trace,
			})
			hints = hints[n:]
		}
	}
}

func (c *composer) outcome(i *pipeline.Invocation, n int) {
	subject, err := subjects.OutcomeFor(c.tenant, i.RunID)
	if err != nil {
		c.fail("outcome", err)
		return
	}
	data, err := Outcome(i)
	if err != nil {
		c.fail("outcome", err)
		return
	}
	c.first = append(c.first, subjects.Publication{
		Stream: subjects.StreamOutcome, Subject: subject, ID: subjects.OutcomeID(i.ID, n), Data: data, Header: header(i),
	})
}

// Outcome gives the outcome message of a call that has ended.
func Outcome(i *pipeline.Invocation) ([]byte, error) {
	item := i.Rendered
	if item == nil {
		item = new(outcome.Item)
		if err := json.Unmarshal(i.Item, item); err != nil {
			return nil, fmt.Errorf("item of %s: %w", i.ID, err)
		}
	}
	return outcome.Message(outcome.Row{
		RunID: i.RunID, SessionID: i.SessionID, StepNumber: i.Step, CallID: i.CallID, InvocationID: i.ID, ToolName: i.ToolName,
		Status: i.Outcome, Item: *item, Truncated: i.Truncated, OutputBytes: i.OutputBytes, Artifact: i.Artifact,
		RunError: i.RunError, SynthesisOnly: i.SynthesisOnly,
	}, outcome.MaximumMessageBytes), nil
}

// Pending gives the notice of a call that waits. A call that neither waits for
// an approval nor is suspended is on its way: the notice says until when it may
// take.
func Pending(i *pipeline.Invocation, a *pipeline.Approval) ([]byte, string, error) {
	info := subjects.PendingInfo{Kind: subjects.PendingApproval, Ref: i.ID.String(), ExpiresAt: i.DeadlineAt}
	switch {
	case a != nil:
		info.Ref, info.ExpiresAt = a.ID.String(), a.ExpiresAt
	case i.SuspendedKind != "":
		info.Kind, info.Ref = subjects.PendingKind(i.SuspendedKind), i.SuspendedRef
	case !i.AuthorityID.IsZero():
		info.Ref = i.AuthorityID.String()
	}
	info.ExpiresAt = info.ExpiresAt.UTC()
	data, err := json.Marshal(subjects.Pending{
		RunID: i.RunID, SessionID: i.SessionID, StepNumber: i.Step, CallID: i.CallID, InvocationID: i.ID, Pending: info,
	})
	return data, info.Ref, err //nolint:wrapcheck // the caller names it
}

func (c *composer) pending(i *pipeline.Invocation, a *pipeline.Approval) {
	subject, err := subjects.OutcomeFor(c.tenant, i.RunID)
	if err != nil {
		c.fail("pending notice", err)
		return
	}
	data, ref, err := Pending(i, a)
	if err != nil {
		c.fail("pending notice", err)
		return
	}
	c.first = append(c.first, subjects.Publication{
		Stream: subjects.StreamOutcome, Subject: subject, ID: subjects.PendingID(i.ID, ref), Data: data, Header: header(i),
	})
}

func (c *composer) event(n *pipeline.Notice) {
	subject, err := subjects.EventFor(c.tenant, n.Call.RunID, n.Event.Name)
	if err != nil {
		c.fail("event", err)
		return
	}
	e := CallEvent(n)
	c.events = append(c.events, subjects.Publication{
		Stream: subjects.StreamEvent, Subject: subject, ID: subjects.EventID(n.Ref, n.Seq),
		Data: e.AppendJSON(make([]byte, 0, 640)), Header: header(n.Call),
	})
}

// CallEvent gives the event of a call: identity and classification, nothing
// else (specification, "Events and telemetry").
func CallEvent(n *pipeline.Notice) subjects.CallEvent {
	i := n.Call
	e := subjects.CallEvent{
		Event: n.Event.Name, OccurredAt: n.Event.At, TenantID: i.TenantID, Seq: n.Seq,
		InvocationID: i.ID, RunID: i.RunID, StepNumber: i.Step, CallID: i.CallID, ToolName: i.ToolName,
		ToolSource: i.Source, ToolVersion: i.ToolVersion, IdempotencyClass: i.Class, EffectSent: n.Event.EffectSent,
	}
	if !i.Group.IsZero() {
		e.ParallelGroup = &i.Group
	}
	if n.Event.Outcome == "" {
		return e
	}
	e.OutcomeStatus, e.OutputBytes, e.Truncated = &n.Event.Outcome, &i.OutputBytes, i.Truncated
	if n.Event.Reason != "" {
		e.ReasonCode = &n.Event.Reason
	}
	if !i.StartedAt.IsZero() {
		ms := max(0, n.Event.At.Sub(i.StartedAt).Round(time.Millisecond).Milliseconds())
		e.DurationMS = &ms
	}
	return e
}

func (c *composer) other(o *pipeline.OtherEvent) {
	subject, err := subjects.EventFor(c.tenant, o.RunID, o.Name)
	if err != nil {
		c.fail("event", err)
		return
	}
	e := subjects.Event{EventID: o.ID.String(), Event: o.Name, OccurredAt: o.At.UTC(), TenantID: c.tenant}
	if !o.RunID.IsZero() {
		e.RunID = &o.RunID
	}
	if err := json.Unmarshal(o.Data, &e.Data); err != nil {
		c.fail("event", err)
		return
	}
	data, err := e.Encode()
	if err != nil {
		c.fail("event", err)
		return
	}
	c.events = append(c.events, subjects.Publication{Stream: subjects.StreamEvent, Subject: subject, ID: e.EventID, Data: data})
}
