package cli

import (
	"context"
	"iter"
	"time"

	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/internal/ui"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

type approvalsCommands struct {
	List    approvalsListCommand   `cmd:"" help:"List what waits for approval, with exactly the arguments that will run."`
	Approve approvalsDecideCommand `cmd:"" help:"Let a call run."`
	Deny    approvalsDecideCommand `cmd:"" help:"End a call that waits."`
}

type approvalsListCommand struct {
	wire
	JSON bool `name:"json" help:"Print JSON."`
}

// Run lists the open approvals.
func (c *approvalsListCommand) Run(ctx context.Context, p *process) error {
	conn, err := c.dial(ctx, p)
	if err != nil {
		return err
	}
	defer conn.Close()
	all, err := collect(conn.ApprovalsList(ctx, subjects.ApprovalsListRequest{}), 0)
	if err != nil {
		return answerAdvice(err)
	}
	if c.JSON {
		return p.json(all)
	}
	if len(all) == 0 {
		p.out.Line("nothing waits for approval")
		return nil
	}
	for i := range all {
		p.printApproval(&all[i])
	}
	p.out.Printf("%s\n", p.out.Paint(ui.Cyan, p.command("approvals approve|deny"+c.flags()+" ID [--comment TEXT]")))
	return nil
}

// printApproval shows what an approver decides about. Whatever hides in the
// arguments is made visible: what is shown is what runs.
func (p *process) printApproval(a *subjects.ApprovalInfo) {
	row := func(name, text string) { p.out.Printf("  %s  %s\n", p.out.Paint(ui.Dim, ui.Pad(name, 9)), text) }
	p.out.Printf("%s  %s %s\n", p.out.Paint(ui.Yellow, a.ApprovalID.String()), p.out.Paint(ui.Bold, a.ToolName), a.ToolVersion)
	row("arguments", ui.Escape(string(a.Arguments)))
	row("sha256", a.ArgumentsHash)
	row("risk", string(a.Risk)+", by policy row "+a.MatrixRow)
	row("for", a.Principal+", run "+a.RunID.String()+", call "+a.CallID)
	row("expires", "in "+ui.Duration(time.Until(a.ExpiresAt).Round(time.Second))+", at "+a.ExpiresAt.Local().Format(time.TimeOnly))
	p.out.Line("")
}

type approvalsDecideCommand struct {
	wire
	ID      string `arg:"" help:"The approval."`
	Comment string `help:"Why; it is recorded." placeholder:"TEXT"`
	JSON    bool   `name:"json" help:"Print JSON."`

	deny bool
}

// Run decides.
func (c *approvalsDecideCommand) Run(ctx context.Context, p *process) error {
	id, conn, err := c.dialAbout(ctx, p, "approval", c.ID)
	if err != nil {
		return err
	}
	defer conn.Close()
	decide, word := conn.Approve, "approved"
	if c.deny {
		decide, word = conn.Deny, "denied"
	}
	settled, err := decide(ctx, id, c.Comment)
	if err != nil {
		return answerAdvice(err)
	}
	return p.settled(c.JSON, settled, id, word, c.actor())
}

// settled says that a command was applied.
func (p *process) settled(asJSON bool, s client.Settled, id tool.ID, word, actor string) error {
	if asJSON {
		return p.json(subjects.CommandGetResponse{CommandID: s.CommandID, Kind: s.Kind, Result: s.Result, Code: s.Code, SettledAt: s.At})
	}
	p.out.Printf("%s %s by %s\n", p.out.Paint(ui.Green, word), id, actor)
	return nil
}

// collect takes at most limit items, or all when it is 0.
func collect[T any](items iter.Seq2[T, error], limit int) ([]T, error) {
	all := []T{}
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		if all = append(all, item); len(all) == limit {
			break
		}
	}
	return all, nil
}
