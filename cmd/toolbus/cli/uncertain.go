package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/toolbus/toolbus/internal/ui"
	"github.com/toolbus/toolbus/subjects"
)

type uncertainCommands struct {
	List   uncertainListCommand   `cmd:"" help:"List calls that may or may not have had their effect."`
	Review uncertainReviewCommand `cmd:"" help:"Record what you found out about one; its outcome stays what it is."`
}

type uncertainListCommand struct {
	wire
	Reviewed bool `help:"Those that were reviewed too."`
	JSON     bool `name:"json" help:"Print JSON."`
}

// Run lists uncertain calls.
func (c *uncertainListCommand) Run(ctx context.Context, p *process) error {
	conn, err := c.dial(ctx, p)
	if err != nil {
		return err
	}
	defer conn.Close()
	all, err := collect(conn.UncertainList(ctx, subjects.UncertainListRequest{Reviewed: c.Reviewed}), 0)
	if err != nil {
		return answerAdvice(err)
	}
	if c.JSON {
		return p.json(all)
	}
	if len(all) == 0 {
		p.out.Line("no call is uncertain")
		return nil
	}
	rows := make([][]ui.Cell, 0, len(all))
	for i := range all {
		u := &all[i]
		rows = append(rows, []ui.Cell{
			ui.Styled(ui.Yellow, u.Invocation.InvocationID.String()), ui.Styled(ui.Bold, u.Invocation.ToolName),
			ui.Text(u.Invocation.CreatedAt.Local().Format(time.DateTime)), ui.Text(strconv.Itoa(u.LateResults)), ui.Text(string(u.Verdict)),
		})
	}
	p.out.Table("", []string{"invocation", "tool", "proposed", "late results", "verdict"}, rows)
	p.out.Printf("\n%s\n", p.out.Paint(ui.Cyan, p.command("uncertain review"+c.flags()+" ID happened|did_not_happen|unknown")))
	return nil
}

type uncertainReviewCommand struct {
	wire
	ID      string `arg:"" help:"The invocation."`
	Verdict string `arg:"" help:"happened, did_not_happen or unknown." enum:"happened,did_not_happen,unknown"`
	Comment string `help:"How you know; it is recorded." placeholder:"TEXT"`
	JSON    bool   `name:"json" help:"Print JSON."`
}

// Run records a review.
func (c *uncertainReviewCommand) Run(ctx context.Context, p *process) error {
	id, conn, err := c.dialAbout(ctx, p, "invocation", c.ID)
	if err != nil {
		return err
	}
	defer conn.Close()
	settled, err := conn.Review(ctx, id, subjects.ReviewVerdict(c.Verdict), c.Comment)
	if err != nil {
		return answerAdvice(err)
	}
	return p.settled(c.JSON, settled, id, "reviewed ("+c.Verdict+")", c.actor())
}
