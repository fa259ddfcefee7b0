package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

const (
	firstLook = 100 * time.Millisecond
	lastLook  = 2 * time.Second
)

// Settled is the recorded result of a command.
type Settled struct {
	CommandID string
	Kind      subjects.CommandKind
	// Result is [subjects.CommandApplied] or [subjects.CommandRefused].
	Result string
	// Code says why it was refused, empty when it was applied.
	Code string
	At   time.Time
}

// Cancel ends a run and what is open in it: calls that have not started fail as
// tool.run_cancelled, those at work are told to stop.
func (c *Client) Cancel(ctx context.Context, run tool.ID, reason string) (Settled, error) {
	return c.Do(ctx, &subjects.Cancel{CommandID: newCommandID(), RunID: run, Reason: reason})
}

// EndRun says that the runtime is done with a run; calls that have not started
// fail as tool.not_started.
func (c *Client) EndRun(ctx context.Context, run tool.ID) (Settled, error) {
	return c.Do(ctx, &subjects.RunEnd{CommandID: newCommandID(), RunID: run})
}

// CloseSession closes a session: what is proposed in it afterwards is refused as
// session_closed.
func (c *Client) CloseSession(ctx context.Context, session tool.ID) (Settled, error) {
	return c.Do(ctx, &subjects.SessionClose{CommandID: newCommandID(), SessionID: session})
}

// Resume answers a call that waits for a person, with any JSON value.
func (c *Client) Resume(ctx context.Context, invocation tool.ID, content json.RawMessage) (Settled, error) {
	return c.Do(ctx, &subjects.Resume{CommandID: newCommandID(), InvocationID: invocation, Content: content})
}

// ResumeWithChild answers a call that waits for a child run, with its result.
func (c *Client) ResumeWithChild(ctx context.Context, invocation tool.ID, result json.RawMessage) (Settled, error) {
	return c.Do(ctx, &subjects.Resume{CommandID: newCommandID(), InvocationID: invocation, ChildResult: result})
}

// Approve lets a call run that waits for approval. Approvers are operators.
func (c *Client) Approve(ctx context.Context, approval tool.ID, comment string) (Settled, error) {
	return c.decide(ctx, approval, subjects.DecisionApprove, comment)
}

// Deny ends a call that waits for approval, with the code of the row of the
// policy that required it.
func (c *Client) Deny(ctx context.Context, approval tool.ID, comment string) (Settled, error) {
	return c.decide(ctx, approval, subjects.DecisionDeny, comment)
}

func (c *Client) decide(ctx context.Context, approval tool.ID, decision subjects.Decision, comment string) (Settled, error) {
	return c.Do(ctx, &subjects.Approval{CommandID: newCommandID(), ApprovalID: approval, Decision: decision, Comment: comment})
}

// Review records what a person found out about an uncertain call; its outcome
// stays what it is.
func (c *Client) Review(ctx context.Context, invocation tool.ID, verdict subjects.ReviewVerdict, comment string) (Settled, error) {
	return c.Do(ctx, &subjects.Review{CommandID: newCommandID(), InvocationID: invocation, Verdict: verdict, Comment: comment})
}

// Revoke takes scopes from a principal in every open session.
func (c *Client) Revoke(ctx context.Context, principal string, scopes []string) (Settled, error) {
	return c.Do(ctx, &subjects.Revoke{CommandID: newCommandID(), Principal: principal, Scopes: scopes})
}

func newCommandID() string { return tool.NewID().String() }

// Do sends a command with the id in it and waits until it is settled. A command
// that changed nothing gives its result and a [*CommandRefusedError]. One whose
// fate is not known when ctx ends gives an [*UnsettledError]. Sending the same
// command with the same id again changes nothing and gives the recorded result.
func (c *Client) Do(ctx context.Context, command subjects.Command) (Settled, error) {
	if err := c.submit(ctx, command); err != nil {
		return Settled{}, err
	}
	settled, err := c.settlement(ctx, command.ID())
	if err != nil {
		return Settled{}, &UnsettledError{CommandID: command.ID(), Kind: command.Kind(), Err: err}
	}
	if settled.Result == subjects.CommandRefused {
		return settled, &CommandRefusedError{CommandID: settled.CommandID, Kind: settled.Kind, Code: settled.Code}
	}
	return settled, nil
}

// submit returns once the bus has stored the command.
func (c *Client) submit(ctx context.Context, command subjects.Command) error {
	kind := command.Kind()
	if c.options.Actor == "" {
		return fmt.Errorf("command %s: %w", kind, ErrNoActor)
	}
	data, err := subjects.EncodeCommand(command)
	if err != nil {
		return fmt.Errorf("command %s: %w", kind, err)
	}
	subject, err := subjects.CommandFor(c.options.Tenant, kind, c.options.Actor)
	if err != nil {
		return fmt.Errorf("command %s: %w", kind, err)
	}
	err = c.publish(ctx, subjects.StreamCommand, subject, data)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrPermission), errors.Is(err, ErrNotAccepted), errors.Is(err, ErrTooLarge):
		return fmt.Errorf("command %s: %w", kind, err) // nothing was stored
	}
	return &UnsettledError{CommandID: command.ID(), Kind: kind, Err: err}
}

// settlement asks until the command is settled: tenants do not see the event
// that says so.
func (c *Client) settlement(ctx context.Context, id string) (Settled, error) {
	for wait := firstLook; ; wait = min(wait*3/2, lastLook) {
		if err := c.sleep(ctx, wait); err != nil {
			return Settled{}, err
		}
		settled, err := c.CommandGet(ctx, id)
		pending := errors.Is(err, &subjects.RPCError{Code: subjects.CodeNotFound})
		away := errors.Is(err, ErrUnavailable) && ctx.Err() == nil
		if !pending && !away {
			return settled, err
		}
	}
}

func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller's own
	case <-c.closed:
		return ErrClosed
	case <-timer.C:
		return nil
	}
}

// CommandGet asks how a command was settled. One that is not, or does not exist,
// is a [*subjects.RPCError] with the code not_found.
func (c *Client) CommandGet(ctx context.Context, id string) (Settled, error) {
	var answer subjects.CommandGetResponse
	if err := c.ask(ctx, subjects.VerbCommandGet, subjects.CommandGetRequest{CommandID: id}, &answer); err != nil {
		return Settled{}, err
	}
	return Settled{
		CommandID: answer.CommandID, Kind: answer.Kind, Result: answer.Result, Code: answer.Code, At: answer.SettledAt,
	}, nil
}
