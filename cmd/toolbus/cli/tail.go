package cli

import (
	"context"
	"errors"
	"time"

	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/internal/ui"
	"github.com/toolbus/toolbus/tool"
)

type tailCommand struct {
	wire
	RunID string `name:"run" help:"Events of one run only." placeholder:"ID"`
	Event string `help:"Events of that name only: tool.call.uncertain, tool.call.*, mcp.>" placeholder:"PATTERN"`
	All   bool   `help:"Events of every tenant."`
	JSON  bool   `name:"json" help:"Print each event as a line of JSON."`
}

// Run follows the events until it is told to stop.
func (c *tailCommand) Run(ctx context.Context, p *process) error {
	o := client.TailOptions{Event: c.Event}
	if c.RunID != "" {
		var err error
		if o.Run, err = parseID("--run", c.RunID); err != nil {
			return err
		}
	}
	conn, err := c.dial(ctx, p)
	if err != nil {
		return err
	}
	defer conn.Close()
	o.Ready = func() { p.err.Line(p.err.Paint(ui.Dim, "following the events of "+c.whose()+"; Ctrl-C ends it")) }
	o.Missed = func() { p.err.Line(p.err.Paint(ui.Yellow, "events may have been missed")) }
	follow := conn.Tail
	if c.All {
		follow = conn.TailAll
	}
	var failed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = follow(ctx, o, func(e client.Event) {
		if failed = c.show(p, &e); failed != nil {
			cancel()
		}
	})
	return answerAdvice(errors.Join(failed, err))
}

func (c *tailCommand) whose() string {
	if c.All {
		return "every tenant"
	}
	return "tenant " + c.Tenant
}

func (c *tailCommand) show(p *process, e *client.Event) error {
	switch {
	case c.JSON && e.Call != nil:
		return p.json(e.Call)
	case c.JSON:
		return p.json(e.Other)
	}
	var at time.Time
	var text string
	if e.Call != nil {
		at, text = e.Call.OccurredAt, callEvent(p.out, e.Call, 12)
	} else {
		at, text = e.Other.OccurredAt, otherEvent(p.out, e.Other)
	}
	head := p.out.Paint(ui.Dim, at.Local().Format("15:04:05.000"))
	if c.All {
		head += "  " + ui.Pad(e.Tenant, 12)
	}
	if e.Run != (tool.ID{}) {
		head += "  " + p.out.Paint(ui.Dim, e.Run.String()[24:])
	}
	p.out.Printf("%s  %s\n", head, text)
	return nil
}
