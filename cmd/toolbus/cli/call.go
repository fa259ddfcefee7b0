package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/internal/ui"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// callCommand makes one call in a run of its own.
type callCommand struct {
	wire
	identity
	Name      string         `arg:"" help:"Registry name or alias of the tool."`
	Arguments string         `arg:"" optional:"" default:"{}" help:"JSON object; - reads it from standard input."`
	Session   string         `help:"Session to make the call in; one is opened unless given." placeholder:"ID"`
	Trust     string         `help:"Trust of the call and of its arguments." default:"user" enum:"external_untrusted,internal_tool,user,trusted_configuration,platform"`
	Timeout   *time.Duration `help:"Deadline of the call, such as 30s." placeholder:"DURATION"`
	JSON      bool           `name:"json" help:"Print the outcome as JSON."`
}

// timeoutSlack is how long after its deadline the outcome of a call may take.
const timeoutSlack = 30 * time.Second

// Run proposes the call, waits and prints the outcome.
func (c *callCommand) Run(ctx context.Context, p *process) error {
	call, err := c.call(p)
	if err != nil {
		return err
	}
	conn, err := c.dial(ctx, p)
	if err != nil {
		return err
	}
	defer conn.Close()
	session, err := c.session(ctx, conn)
	if err != nil {
		return answerAdvice(err)
	}
	run := session.NewRun()
	defer run.Close()
	start := time.Now()
	o, err := c.propose(ctx, p, run, call)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return advise(fmt.Errorf("no outcome yet: %w", err), "the call goes on without us: %s", p.command("invocations list"+c.flags()+" --run "+run.ID().String()))
	case err != nil:
		return answerAdvice(err)
	}
	if c.JSON {
		err = p.json(o)
	} else {
		p.printOutcome(&o, time.Since(start))
	}
	if err == nil && o.Status != tool.OutcomeSucceeded {
		err = errNotSucceeded
	}
	return err
}

func (c *callCommand) call(p *process) (subjects.Call, error) {
	raw := []byte(c.Arguments)
	if c.Arguments == "-" {
		var err error
		if raw, err = io.ReadAll(io.LimitReader(p.in, subjects.MaxProposalBytes+1)); err != nil {
			return subjects.Call{}, fmt.Errorf("standard input: %w", err)
		}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return subjects.Call{}, wrongUse(`arguments must be a JSON object, such as '{"path":"notes.md"}'`)
	}
	if c.Timeout != nil && *c.Timeout <= 0 {
		return subjects.Call{}, wrongUse("--timeout must be above 0")
	}
	call := subjects.Call{CallID: "call", Name: c.Name, Arguments: raw, ArgumentTrust: map[string]tool.Trust{}}
	for name := range members {
		call.ArgumentTrust[name] = tool.Trust(c.Trust)
	}
	return call, nil
}

func (c *callCommand) session(ctx context.Context, conn *client.Client) (*client.Session, error) {
	if c.Session == "" {
		return conn.OpenSession(ctx, c.identity.options(c.actor())) //nolint:wrapcheck // the caller words it
	}
	id, err := parseID("--session", c.Session)
	if err != nil {
		return nil, err
	}
	return conn.AttachSession(id), nil
}

func (c *callCommand) propose(ctx context.Context, p *process, run *client.Run, call subjects.Call) (subjects.Outcome, error) {
	step := client.Step{
		OriginTrust: tool.Trust(c.Trust), Calls: []subjects.Call{call},
		OnPending: func(n subjects.Pending) { c.pending(p, &n) },
	}
	if c.Timeout != nil {
		step.DeadlineAt = time.Now().Add(*c.Timeout)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *c.Timeout+timeoutSlack)
		defer cancel()
	}
	open, err := run.Propose(ctx, step)
	if err != nil {
		return subjects.Outcome{}, err //nolint:wrapcheck // the caller words it
	}
	outcomes, err := open.Wait(ctx)
	if err != nil {
		return subjects.Outcome{}, err //nolint:wrapcheck // the caller words it
	}
	return outcomes[0], nil
}

// pending says what the call waits for, and how to go on.
func (c *callCommand) pending(p *process, n *subjects.Pending) {
	until := n.Pending.ExpiresAt.Local().Format(time.TimeOnly)
	if n.Pending.Kind != subjects.PendingApproval {
		p.err.Printf("waiting for %s until %s\n", n.Pending.Kind, until)
		return
	}
	p.err.Printf("%s until %s; look at it and decide in another terminal:\n", p.err.Paint(ui.Yellow, "waiting for approval"), until)
	flags := c.flags()
	p.err.Printf("  %s\n", p.err.Paint(ui.Cyan, p.command("approvals list"+flags)))
	p.err.Printf("  %s\n", p.err.Paint(ui.Cyan, p.command("approvals approve"+flags+" "+n.Pending.Ref)))
}

// flags are those by which another command finds the same place.
func (w *wire) flags() string {
	var s strings.Builder
	for _, f := range [][2]string{{"config", w.Config}, {"data", w.Data}, {"server", w.Server}} {
		if f[1] != "" {
			s.WriteString(" --" + f[0] + " " + shellWord(f[1]))
		}
	}
	if w.Tenant != "default" {
		s.WriteString(" --tenant " + w.Tenant)
	}
	return s.String()
}
