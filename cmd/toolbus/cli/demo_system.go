package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/config"
	"github.com/toolbus/toolbus/tool"
)

const (
	demoTenant = "default"
	demoActor  = "demo"
)

// demoSettings make recovery act while one watches.
var demoSettings = []string{
	"TOOLBUS_LEASE_SECONDS=2", "TOOLBUS_RECOVERY_SWEEP_SECONDS=0.2", "TOOLBUS_DISPATCH_RETRY_SECONDS=1",
	"TOOLBUS_OUTBOX_TAKEOVER_SECONDS=1", "TOOLBUS_DATABASE_CONNECTIONS=2", "TOOLBUS_LOG_LEVEL=warn",
}

// demoSystem is an installation of several processes: engines and recovery in
// this one, gatekeepers and executors in children.
type demoSystem struct {
	dir     string
	process *process

	engines *app.Engines
	options app.Options
	env     []string
	log     *os.File

	node   *app.Node
	ended  chan error
	cancel context.CancelFunc

	gatekeepers, executors []*child
	started                int
}

func (s *demoSystem) start(ctx context.Context, gatekeepers, executors int) error {
	p := s.process
	if err := s.configure(); err != nil {
		return err
	}
	err := p.phase(ctx, "PostgreSQL and NATS", func() (err error) {
		s.engines, err = app.StartEngines(ctx, app.EngineOptions{Options: s.options, Dir: s.dir})
		return err
	})
	if err != nil {
		return adviseStart(err, s.dir)
	}
	s.options = s.engines.Use(s.options)
	if err := p.phase(ctx, "tables, streams and consumers", func() error { return app.Migrate(ctx, s.options) }); err != nil {
		return err
	}
	if err := s.publish(); err != nil {
		return err
	}
	return p.phase(ctx, fmt.Sprintf("services: %d gatekeeper, %d executor, 1 recovery", gatekeepers, executors), func() error {
		return s.services(ctx, gatekeepers, executors)
	})
}

// configure makes the one configuration of this process and its children: that
// of the demo and nothing of the environment's.
func (s *demoSystem) configure() error {
	s.env = append(without(s.process.env, config.Prefix), demoSettings...)
	s.env = append(s.env, "TOOLBUS_WORKSPACE_DIRECTORY="+filepath.Join(s.dir, "workspaces"))
	c, err := config.Load("", s.env)
	if err != nil {
		return fmt.Errorf("settings of the demo: %w", err)
	}
	if s.log, err = os.Create(filepath.Join(s.dir, "demo.log")); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	s.options = s.process.options(c)
	s.options.DataDir, s.options.Bus.Name = s.dir, "toolbus-demo"
	s.options.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	return nil
}

// without leaves the variables of toolbus out, but for those of its tests.
func without(env []string, prefix string) []string {
	var kept []string
	for _, entry := range env {
		if !strings.HasPrefix(entry, prefix) || strings.HasPrefix(entry, prefix+"TEST_") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// publish tells the children, and every other command, where the engines are.
func (s *demoSystem) publish() error {
	u, err := url.Parse(s.engines.NATS)
	if err != nil {
		return fmt.Errorf("address of nats: %w", err)
	}
	u.User = url.UserPassword(s.engines.NATSUser, s.engines.NATSPassword.Reveal())
	s.env = append(s.env, "TOOLBUS_NATS_URL="+u.String(), "TOOLBUS_DATABASE_URL="+s.engines.Database)
	about := devFile{
		NATSURL: s.engines.NATS, NATSUser: s.engines.NATSUser, NATSPassword: s.engines.NATSPassword.Reveal(),
		DatabaseURL: s.engines.Database, Data: s.dir,
	}
	return about.write()
}

func (s *demoSystem) services(ctx context.Context, gatekeepers, executors int) error {
	if err := s.recovery(ctx); err != nil {
		return err
	}
	made := make([]*child, gatekeepers+executors)
	errs := make([]error, len(made))
	var starts sync.WaitGroup
	for i := range made {
		service, number := app.Gatekeeper, i+1
		if i >= gatekeepers {
			service, number = app.Executor, i+1-gatekeepers
		}
		starts.Go(func() { made[i], errs[i] = startChild(ctx, s.dir, string(service), number, s.env) })
	}
	starts.Wait()
	for i, c := range made {
		switch {
		case c == nil:
		case i < gatekeepers:
			s.gatekeepers = append(s.gatekeepers, c)
		default:
			s.executors = append(s.executors, c)
		}
	}
	s.started = executors
	return errors.Join(errs...)
}

// recovery runs in this process.
func (s *demoSystem) recovery(ctx context.Context) error {
	n, err := app.Open(ctx, s.options)
	if err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	s.node, s.ended = n, make(chan error, 1)
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	ready := make(chan struct{})
	go func() { s.ended <- n.Run(running, func() { close(ready) }, app.Recovery) }()
	select {
	case <-ready:
		return nil
	case err := <-s.ended:
		s.ended <- err
		return fmt.Errorf("recovery ended: %w", err)
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // told to stop
	}
}

// replaceExecutor starts another executor.
func (s *demoSystem) replaceExecutor(ctx context.Context) (*child, error) {
	s.started++
	c, err := startChild(ctx, s.dir, string(app.Executor), s.started, s.env)
	if c != nil {
		s.executors = append(s.executors, c)
	}
	return c, err
}

// stop ends everything, the last started first. What did not start is skipped.
func (s *demoSystem) stop(ctx context.Context) error {
	var errs []error
	for _, group := range [][]*child{s.executors, s.gatekeepers} {
		results := make([]error, len(group))
		var stops sync.WaitGroup
		for i, c := range group {
			stops.Go(func() { results[i] = c.stop() })
		}
		stops.Wait()
		errs = append(errs, results...)
	}
	if s.node != nil {
		s.cancel()
		errs = append(errs, <-s.ended, s.node.Close(ctx))
	}
	errs = append(errs, removeDevFile(s.dir))
	if s.engines != nil {
		errs = append(errs, s.engines.Close(ctx))
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	return errors.Join(errs...)
}

// dial connects as a runtime and operator would.
func (s *demoSystem) dial(ctx context.Context) (*client.Client, error) {
	return client.Dial(ctx, client.Options{ //nolint:wrapcheck // says what it is
		URL: s.engines.NATS, User: s.engines.NATSUser, Password: s.engines.NATSPassword,
		Tenant: demoTenant, Actor: demoActor, Name: "toolbus-demo-client",
	})
}

// effects counts, by invocation, what the outside world saw of each executor.
func (s *demoSystem) effects() (map[string]int, error) {
	all := map[string]int{}
	for _, c := range s.executors {
		one, err := c.effects()
		if err != nil {
			return nil, err
		}
		for id, n := range one {
			all[id] += n
		}
	}
	return all, nil
}

func (c *child) effects() (map[string]int, error) {
	f, err := os.Open(c.sink)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // none is none
	}
	if err != nil {
		return nil, fmt.Errorf("effects: %w", err)
	}
	defer func() { _ = f.Close() }()
	count := map[string]int{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var effect struct {
			InvocationID tool.ID `json:"invocation_id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &effect); err != nil {
			return nil, fmt.Errorf("effects: %w", err)
		}
		count[effect.InvocationID.String()]++
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("effects: %w", err)
	}
	return count, nil
}
