package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/internal/localpg"
	"github.com/toolbus/toolbus/internal/ui"
	"github.com/toolbus/toolbus/tool"
)

// devCommand runs everything in this process.
type devCommand struct {
	Data     string `help:"Data directory; also TOOLBUS_DATA. Default: /var/lib/toolbus for root, else below the home directory." type:"path" placeholder:"DIR"`
	NATSPort int    `name:"nats-port" help:"Loopback port of NATS; 0 lets the system choose." default:"0" placeholder:"N"`
	HTTP     string `name:"http" help:"Address of the HTTP API, in place of http.address." placeholder:"ADDR"`
	Config   string `help:"${config_help}" type:"path" placeholder:"FILE"`
	JSON     bool   `name:"json" help:"Print one line of JSON with addresses and credentials once ready."`
}

const (
	// portFile keeps the port of NATS in the data directory.
	portFile = "nats.port"
	// engineTimeout bounds their start, recovery after a crash included.
	engineTimeout = 5 * time.Minute
)

// Run starts the engines, brings them up to this build and runs the services
// until it is told to stop; then everything ends in reverse order.
func (c *devCommand) Run(ctx context.Context, p *process) error {
	start := time.Now()
	o, err := c.options(p)
	if err != nil {
		return err
	}
	lock, err := own(o.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := removeDevFile(o.DataDir); err != nil {
		return err
	}
	port, err := c.port(ctx, o.DataDir)
	if err != nil {
		return err
	}
	var engines *app.Engines
	err = p.phase(ctx, "PostgreSQL and NATS in "+ui.Escape(o.DataDir), func() error {
		bounded, cancel := context.WithTimeout(ctx, engineTimeout)
		defer cancel()
		engines, err = app.StartEngines(bounded, app.EngineOptions{Options: o, Dir: o.DataDir, NATSPort: port})
		return err
	})
	if err != nil {
		return adviseStart(err, o.DataDir)
	}
	err = c.onEngines(ctx, p, engines, o, start)
	whole := context.WithoutCancel(ctx)
	return errors.Join(err, p.phase(whole, "engines stopped", func() error { return engines.Close(whole) }))
}

func (c *devCommand) options(p *process) (app.Options, error) {
	cfg, err := p.load(c.Config)
	if err != nil {
		return app.Options{}, err
	}
	if c.HTTP != "" {
		cfg.HTTP.Address = c.HTTP
		if err := cfg.Validate(); err != nil {
			return app.Options{}, wrongUse("--http: %w", err)
		}
	}
	if c.Config == "" && p.getenv("TOOLBUS_CONFIG") == "" && p.getenv("TOOLBUS_LOG_LEVEL") == "" {
		cfg.Log.Level = "warn" // the phases and the banner say the rest
	}
	o := p.options(cfg)
	if o.DataDir, err = p.dataDir(c.Data); err != nil {
		return o, err
	}
	o.Bus.Name = "toolbus-dev"
	o.DemoSink = filepath.Join(o.DataDir, "demo-effects.jsonl")
	return o, nil
}

// own takes the data directory for this process, creating it if need be.
func own(dir string) (*localpg.FileLock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the account that runs PostgreSQL passes through
		return nil, advise(fmt.Errorf("data directory: %w", err), "name another one with --data DIR")
	}
	lock, err := localpg.OpenLock(filepath.Join(dir, "dev.lock"))
	if err != nil {
		return nil, advise(fmt.Errorf("data directory: %w", err), "name another one with --data DIR")
	}
	taken, err := lock.TryExclusive()
	switch {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("data directory: %w", err), lock.Close())
	case !taken:
		return nil, advise(errors.Join(fmt.Errorf("another `toolbus dev` runs on %s", dir), lock.Close()),
			"use it (every command finds it), stop it, or name another directory with --data DIR")
	}
	return lock, nil
}

// port gives the port of NATS: the one that is asked for, else that of the last
// start, so that clients which outlived it find it again.
func (c *devCommand) port(ctx context.Context, dir string) (int, error) {
	if c.NATSPort != 0 {
		err := available(ctx, c.NATSPort)
		return c.NATSPort, advise(err, "choose another port, or leave --nats-port out")
	}
	last, err := os.ReadFile(filepath.Join(dir, portFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("port of nats: %w", err)
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(last)))
	if err != nil || available(ctx, port) != nil {
		return 0, nil //nolint:nilerr // there was none, or somebody else has it now
	}
	return port, nil
}

// available reports why a loopback port cannot be listened on.
func available(ctx context.Context, port int) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	return listener.Close() //nolint:wrapcheck // it does not fail
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// keepPort remembers the port of an address for the next start.
func keepPort(dir, address string) error {
	u, err := url.Parse(address)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, portFile), []byte(u.Port()+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("port of nats: %w", err)
	}
	return nil
}

// adviseStart says what to do about engines that did not start.
func adviseStart(err error, dir string) error {
	log := filepath.Join(dir, "postgres", "postgres.log")
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, localpg.ErrNotInstalled):
		return advise(err, "%s", localpg.InstallCommand())
	case errors.Is(err, localpg.ErrInUse):
		return advise(err, "another process uses the database in %s: stop it, or name another directory with --data DIR", filepath.Join(dir, "postgres"))
	case errors.Is(err, fs.ErrPermission):
		return advise(err, "name a directory that you may write to with --data DIR")
	case exists(log):
		return advise(err, "the log of PostgreSQL is %s", log)
	}
	return advise(err, "name another directory with --data DIR; `toolbus doctor` tells what else is missing")
}

func (c *devCommand) onEngines(ctx context.Context, p *process, engines *app.Engines, o app.Options, start time.Time) error {
	token, err := app.DevToken(o.DataDir)
	if err != nil {
		return fmt.Errorf("token of the HTTP API: %w", err)
	}
	if engines.Server != nil {
		if err := keepPort(o.DataDir, engines.NATS); err != nil {
			return err
		}
	}
	o = engines.Use(o)
	o.DevToken = token
	if err := p.phase(ctx, "tables, streams and consumers", func() error { return app.Migrate(ctx, o) }); err != nil {
		return err
	}
	n, err := app.Open(ctx, o)
	if err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	about := devFile{
		NATSURL: engines.NATS, NATSUser: engines.NATSUser, NATSPassword: engines.NATSPassword.Reveal(),
		DatabaseURL: engines.Database, HTTPToken: token.Reveal(), Data: o.DataDir,
	}
	alive, done := whileAlive(ctx, engines)
	err = serve(alive, n, func() error {
		about.HTTPURL = "http://" + n.HTTPAddress()
		return c.ready(p, &about, token, time.Since(start))
	}, app.Services()...)
	err = errors.Join(err, done(), removeDevFile(o.DataDir), n.Close(context.WithoutCancel(ctx)))
	p.err.Printf("  %s services stopped\n", p.err.Paint(ui.Green, "✓"))
	if errors.Is(err, syscall.EADDRINUSE) {
		err = advise(err, "name another address with --http, such as 127.0.0.1:0 for one that is free")
	}
	return err
}

// errEngineGone says that the private PostgreSQL ended by itself.
var errEngineGone = errors.New("PostgreSQL ended by itself")

// whileAlive gives a context that also ends when the database does: whoever
// supervises this process shall start both again. done gives the reason.
func whileAlive(ctx context.Context, engines *app.Engines) (alive context.Context, done func() error) {
	alive, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-engines.Exited():
			cancel(errEngineGone)
		case <-alive.Done():
		}
	})
	return alive, func() error {
		cancel(nil)
		watch.Wait()
		if errors.Is(context.Cause(alive), errEngineGone) {
			return advise(errEngineGone, "nothing is lost: start it again")
		}
		return nil
	}
}

// ready tells people and programs where everything is.
func (c *devCommand) ready(p *process, d *devFile, token tool.Secret, took time.Duration) error {
	if err := d.write(); err != nil {
		return err
	}
	if c.JSON {
		return p.json(d)
	}
	data := ""
	if standard := p.defaultDataDir(); d.Data != standard && p.getenv(dataVariable) == "" {
		data = " --data " + shellWord(d.Data)
	}
	row := func(name, text string) { p.out.Printf("  %s %s\n", p.out.Paint(ui.Dim, ui.Pad(name, 10)), text) }
	p.out.Printf("\n%s in %s\n\n", p.out.Paint(ui.Bold, "toolbus is ready"), ui.Duration(took))
	row("nats", d.NATSURL+", user "+d.NATSUser+", password in "+filepath.Join(d.Data, "nats.password"))
	row("http", d.HTTPURL)
	row("data", d.Data)
	p.out.Printf("\nIn another terminal:\n\n")
	for _, command := range []string{
		"tail" + data,
		"call" + data + ` math.evaluate '{"expression":"6*7"}'`,
		"call" + data + ` demo.external_write '{"payload":"hello"}'`,
		"approvals list" + data,
	} {
		p.out.Printf("  %s\n", p.out.Paint(ui.Cyan, p.command(command)))
	}
	p.out.Printf("  %s\n", p.out.Paint(ui.Cyan, "curl -N -H 'Authorization: Bearer "+token.Reveal()+"' "+d.HTTPURL+"/v1/events"))
	p.out.Printf("\nCtrl-C stops everything and keeps the data.\n")
	return nil
}
