package cli

import (
	"context"
	"time"

	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/internal/ui"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

type sessionCommands struct {
	Open  sessionOpenCommand  `cmd:"" help:"Open a session and list the tools it offers."`
	Close sessionCloseCommand `cmd:"" help:"Close a session."`
}

// identity says for whom a session is.
type identity struct {
	Principal  string        `help:"On whose authority calls are made; the actor unless given." placeholder:"NAME"`
	Scopes     []string      `help:"Scopes that the principal holds." placeholder:"SCOPE"`
	Unattended bool          `help:"Nobody is there to approve: what needs approval is denied."`
	Tools      []string      `help:"Tools to offer: names, or patterns that end in .*" default:"*" placeholder:"PATTERN"`
	Profile    string        `help:"Policy profile; the configured one unless given." placeholder:"NAME"`
	Deadline   time.Duration `help:"Deadline of every run; the configured one unless given." placeholder:"DURATION"`
}

func (i *identity) options(actor string) client.SessionOptions {
	principal := i.Principal
	if principal == "" {
		principal = actor
	}
	return client.SessionOptions{
		Principal: tool.Principal{ID: principal, Interactive: !i.Unattended}, Scopes: i.Scopes,
		Agent: subjects.AgentProfile{ID: "cli", Tools: i.Tools}, Profile: i.Profile, RunDeadline: i.Deadline,
	}
}

type sessionOpenCommand struct {
	wire
	identity
	JSON bool `name:"json" help:"Print JSON."`
}

// Run opens a session.
func (c *sessionOpenCommand) Run(ctx context.Context, p *process) error {
	conn, err := c.dial(ctx, p)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := conn.OpenSession(ctx, c.identity.options(c.actor()))
	if err != nil {
		return answerAdvice(err)
	}
	if c.JSON {
		return p.json(subjects.SessionOpenResponse{
			SessionID: s.ID(), Tools: s.Tools(), ToolSchemaSHA256: s.ToolSchemaSHA256(), Servers: s.Servers(),
		})
	}
	rows := make([][]ui.Cell, 0, len(s.Tools()))
	for _, t := range s.Tools() {
		rows = append(rows, []ui.Cell{
			ui.Styled(ui.Bold, t.Name), ui.Text(t.Version), ui.Text(string(t.SideEffect)), ui.Text(ui.Clip(ui.Escape(t.Description), 72)),
		})
	}
	p.out.Table("", []string{"tool", "version", "side effect", "description"}, rows)
	p.out.Printf("\nsession %s\n", p.out.Paint(ui.Bold, s.ID().String()))
	return nil
}

type sessionCloseCommand struct {
	wire
	ID string `arg:"" help:"The session."`
}

// Run closes a session.
func (c *sessionCloseCommand) Run(ctx context.Context, p *process) error {
	id, conn, err := c.dialAbout(ctx, p, "session", c.ID)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.CloseSession(ctx, id); err != nil {
		return answerAdvice(err)
	}
	p.out.Printf("session %s is closed\n", id)
	return nil
}

func parseID(what, text string) (tool.ID, error) {
	id, err := tool.ParseID(text)
	if err != nil {
		return id, wrongUse("%s: %w", what, err)
	}
	return id, nil
}
