package cli

import (
	"context"
	"errors"
	"os/user"
	"strings"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/config"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// place is where a command finds the system: engines that the configuration
// names, else the `toolbus dev` that runs on the data directory.
type place struct {
	Config string `help:"${config_help}" type:"path" placeholder:"FILE"`
	Data   string `help:"Data directory of a running toolbus dev; also TOOLBUS_DATA." type:"path" placeholder:"DIR"`
}

const startAdvice = "start one with `toolbus dev`, or name engines with TOOLBUS_NATS_URL and TOOLBUS_DATABASE_URL"

// find gives the options of a node at the place. Only what the configuration
// leaves open is looked for in the data directory.
func (l *place) find(ctx context.Context, p *process) (app.Options, error) {
	c, err := p.load(l.Config)
	if err != nil {
		return app.Options{}, err
	}
	o := p.options(c)
	if c.NATS.URL.Reveal() != "" && c.Database.URL.Reveal() != "" {
		return o, nil
	}
	dir, err := p.dataDir(l.Data)
	if err != nil {
		return o, err
	}
	d, err := running(ctx, dir)
	if err != nil {
		return o, advise(err, startAdvice)
	}
	o.DataDir = dir
	if c.NATS.URL.Reveal() == "" {
		o.Bus.URL, o.Bus.User, o.Bus.Password = d.NATSURL, d.NATSUser, tool.NewSecret(d.NATSPassword)
	}
	if c.Database.URL.Reveal() == "" {
		o.Database = d.DatabaseURL
	}
	return o, nil
}

// wire is where a command finds the bus, and as whom it speaks.
type wire struct {
	place
	Server string `help:"Address of NATS, in place of the configured one." placeholder:"URL"`
	Tenant string `help:"Tenant to act in." default:"default"`
	Actor  string `help:"Who is recorded as having decided; the name of your account unless given." placeholder:"NAME"`
}

// dialAbout connects for a command about one thing, whose id is read first.
func (w *wire) dialAbout(ctx context.Context, p *process, what, text string) (tool.ID, *client.Client, error) {
	id, err := parseID(what, text)
	if err != nil {
		return id, nil, err
	}
	conn, err := w.dial(ctx, p)
	return id, conn, err
}

// dial connects. The caller closes the client.
func (w *wire) dial(ctx context.Context, p *process) (*client.Client, error) {
	if !subjects.ValidToken(w.Tenant) {
		return nil, wrongUse("--tenant must be 1 to 64 of letters, digits, _ and -")
	}
	o, err := w.options(ctx, p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := client.Dial(ctx, o)
	if errors.Is(err, client.ErrUnavailable) {
		return nil, advise(err, "is the server up, and are user and password right? `toolbus doctor` tells")
	}
	return c, err //nolint:wrapcheck // says what it is
}

func (w *wire) options(ctx context.Context, p *process) (client.Options, error) {
	o := client.Options{Tenant: w.Tenant, Actor: w.actor(), Name: "toolbus-cli"}
	if w.Actor != "" && !subjects.ValidToken(w.Actor) {
		return o, wrongUse("--actor must be 1 to 64 of letters, digits, _ and -")
	}
	c, err := p.load(w.Config)
	if err != nil {
		return o, err
	}
	o.CredentialsFile = c.NATS.CredentialsFile
	if o.URL = w.address(c); o.URL != "" {
		return o, nil
	}
	dir, err := p.dataDir(w.Data)
	if err != nil {
		return o, err
	}
	d, err := running(ctx, dir)
	if err != nil {
		return o, advise(err, startAdvice)
	}
	o.URL, o.User, o.Password = d.NATSURL, d.NATSUser, tool.NewSecret(d.NATSPassword)
	return o, nil
}

func (w *wire) address(c config.Config) string {
	if w.Server != "" {
		return w.Server
	}
	return c.NATS.URL.Reveal()
}

// actor is the name of the account where it is a token.
func (w *wire) actor() string {
	if w.Actor != "" {
		return w.Actor
	}
	if u, err := user.Current(); err == nil {
		if name := strings.ToLower(u.Username); subjects.ValidToken(name) {
			return name
		}
	}
	return "operator"
}
