package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolbus/toolbus/internal/ui"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

type invocationsCommands struct {
	List invocationsListCommand `cmd:"" help:"List calls, the newest first."`
	Show invocationsShowCommand `cmd:"" help:"Show one call: its timeline, arguments and result."`
}

type invocationsListCommand struct {
	wire
	RunID   string `name:"run" help:"Calls of one run." placeholder:"ID"`
	Session string `help:"Calls of one session." placeholder:"ID"`
	Status  string `help:"Calls in one status, such as uncertain." placeholder:"STATUS"`
	Tool    string `help:"Calls of one tool." placeholder:"NAME"`
	Limit   int    `help:"At most that many; 0 for all." default:"50" placeholder:"N"`
	JSON    bool   `name:"json" help:"Print JSON."`
}

func (c *invocationsListCommand) filter() (subjects.InvocationsListRequest, error) {
	r := subjects.InvocationsListRequest{Status: tool.Status(c.Status), ToolName: c.Tool}
	if c.Status != "" && !slices.Contains(tool.Statuses(), r.Status) {
		return r, wrongUse("--status: no such status")
	}
	if c.Limit < 0 {
		return r, wrongUse("--limit must not be negative")
	}
	r.Page.Limit = min(c.Limit, 500)
	var err error
	if c.RunID != "" {
		if r.RunID, err = parseID("--run", c.RunID); err != nil {
			return r, err
		}
	}
	if c.Session != "" {
		r.SessionID, err = parseID("--session", c.Session)
	}
	return r, err
}

// Run lists calls.
func (c *invocationsListCommand) Run(ctx context.Context, p *process) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	conn, err := c.dial(ctx, p)
	if err != nil {
		return err
	}
	defer conn.Close()
	all, err := collect(conn.InvocationsList(ctx, filter), c.Limit)
	if err != nil {
		return answerAdvice(err)
	}
	if c.JSON {
		return p.json(all)
	}
	if len(all) == 0 {
		p.out.Line("no calls")
		return nil
	}
	rows := make([][]ui.Cell, 0, len(all))
	for i := range all {
		v := &all[i]
		rows = append(rows, []ui.Cell{
			ui.Text(v.InvocationID.String()), ui.Styled(ui.Dim, v.CreatedAt.Local().Format(time.DateTime)), ui.Styled(ui.Bold, v.ToolName),
			standing(v), ui.Text(v.ReasonCode), ui.Text(strconv.Itoa(v.AttemptNumber)), ui.Text(lasted(v)),
		})
	}
	p.out.Table("", []string{"invocation", "proposed", "tool", "status", "reason", "attempt", "took"}, rows)
	return nil
}

// lasted is the time from proposal to end.
func lasted(i *subjects.InvocationInfo) string {
	if i.CompletedAt == nil {
		return "–"
	}
	return ui.Duration(i.CompletedAt.Sub(i.CreatedAt))
}

type invocationsShowCommand struct {
	wire
	ID   string `arg:"" help:"The invocation."`
	JSON bool   `name:"json" help:"Print JSON."`
}

// Run shows one call.
func (c *invocationsShowCommand) Run(ctx context.Context, p *process) error {
	id, conn, err := c.dialAbout(ctx, p, "invocation", c.ID)
	if err != nil {
		return err
	}
	defer conn.Close()
	whole, err := conn.InvocationsGet(ctx, id)
	if err != nil {
		return answerAdvice(err)
	}
	if c.JSON {
		return p.json(whole)
	}
	p.printInvocation(&whole)
	return nil
}

func (p *process) printInvocation(w *subjects.InvocationsGetResponse) {
	i := &w.Invocation
	status := standing(i)
	p.out.Printf("%s %s  %s  %s\n\n", p.out.Paint(ui.Bold, i.ToolName), i.ToolVersion, p.out.Paint(status.Style, status.Text), p.out.Paint(ui.Dim, i.ReasonCode))
	row := func(name, text string) { p.out.Printf("  %s  %s\n", p.out.Paint(ui.Dim, ui.Pad(name, 10)), text) }
	row("invocation", i.InvocationID.String())
	row("place", "run "+i.RunID.String()+", step "+strconv.Itoa(i.StepNumber)+", call "+i.CallID)
	row("session", i.SessionID.String())
	row("class", string(i.IdempotencyClass)+", attempt "+strconv.Itoa(i.AttemptNumber)+", key "+ui.Clip(i.IdempotencyKey, 17))
	row("arguments", ui.Clip(ui.Escape(string(w.Arguments)), 400))
	p.out.Printf("\n")
	p.timeline(w.Events)
	p.printContent(w)
}

// timeline shows the steps with the time since the first, and since the one
// before.
func (p *process) timeline(events []subjects.InvocationEvent) {
	rows := make([][]ui.Cell, 0, len(events))
	for n := range events {
		e := &events[n]
		since, step := e.OccurredAt.Sub(events[0].OccurredAt), ""
		if n > 0 {
			step = "+" + ui.Duration(e.OccurredAt.Sub(events[n-1].OccurredAt))
		}
		var notes []string
		if e.Event == subjects.EventStarted {
			notes = append(notes, "attempt "+strconv.Itoa(e.AttemptNumber))
		}
		if e.EffectSent {
			notes = append(notes, "effect sent")
		}
		if e.ReasonCode != "" {
			notes = append(notes, e.ReasonCode)
		}
		rows = append(rows, []ui.Cell{
			ui.Styled(ui.Dim, e.OccurredAt.Local().Format("15:04:05.000")), ui.Text(ui.Duration(since)), ui.Styled(ui.Dim, step),
			ui.Styled(eventStyle(e.Event), e.Event), ui.Text(strings.Join(notes, ", ")),
		})
	}
	p.out.Table("  ", []string{"time", "since start", "step", "event", "notes"}, rows)
}

func (p *process) printContent(w *subjects.InvocationsGetResponse) {
	for _, part := range w.Content {
		if part.Type == tool.PartText {
			p.out.Printf("\n%s\n", strings.TrimRight(ui.EscapeLines(part.Text), "\n"))
		}
	}
	for _, a := range w.Artifacts {
		p.out.Printf("\nartifact %s  %s, %d bytes\n", a.ID, ui.Escape(a.MediaType), a.Bytes)
	}
}
