package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/toolbus/toolbus/announce"
	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/internal/observe"
	"github.com/toolbus/toolbus/internal/supervise"
	"github.com/toolbus/toolbus/observer"
	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/policy"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/services/executor"
	"github.com/toolbus/toolbus/store"
	"github.com/toolbus/toolbus/subjects/topology"
	"github.com/toolbus/toolbus/tool"
)

// Node is one process: its connections to the engines, and what the services in
// it share. Make it with [Open], run services with [Node.Run], and close it.
type Node struct {
	o         Options
	log       *slog.Logger
	name      string
	Store     *store.Store
	Bus       *bus.Bus
	publisher *announce.Publisher
	table     *outcome.Table
	registry  *registry.Registry
	profiles  map[string]*policy.Profile
	parts     supervise.Stack
	metrics   *observe.Metrics
	checks    *observe.Checks
	observe   *observer.Observer
	http      Telemetered
	claims    atomic.Pointer[executor.Service]
}

// Open connects to the engines, waiting for them as long as ctx allows, and
// compares schema and topology with this build. Errors: what the configuration
// or the build has wrong; that the engines cannot be reached.
func Open(ctx context.Context, o Options) (*Node, error) {
	o.withDefaults()
	n := &Node{o: o, log: o.Logger, name: instanceName(), publisher: announce.NewPublisher(o.Logger)}
	n.parts.Logger = o.Logger
	n.metrics = observe.NewMetrics(observe.Build{Version: o.Version})
	n.checks = observe.NewChecks(o.Logger)
	if err := n.open(ctx); err != nil {
		return nil, errors.Join(err, n.Close(context.WithoutCancel(ctx)))
	}
	return n, nil
}

// instanceName names this process start; it is never used again.
func instanceName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), tool.NewID().String()[24:])
}

func (n *Node) open(ctx context.Context) error {
	var err error
	if n.table, err = outcome.Load(); err != nil {
		return fmt.Errorf("reason codes: %w", err)
	}
	if n.profiles, err = loadProfiles(n.o.Config.Policy); err != nil {
		return err
	}
	if n.registry, err = buildRegistry(n.o); err != nil {
		return err
	}
	if err := n.trace(ctx); err != nil {
		return err
	}
	if err := n.connect(ctx); err != nil {
		return err
	}
	if err := n.watch(); err != nil {
		return err
	}
	return applyStanding(ctx, n.Store, n.o.Config.Policy.Standing)
}

func (n *Node) connect(ctx context.Context) error {
	err := patiently(ctx, n.log, "database", func() error {
		s, err := store.Open(ctx, store.Options{
			URL: n.o.Database, Pool: n.o.Config.Database.Connections, Logger: n.log, Announce: n.publisher.Announce,
		})
		n.Store = s
		return err
	})
	if err != nil {
		return err
	}
	n.parts.Push("store", func(context.Context) error { n.Store.Close(); return nil })
	err = patiently(ctx, n.log, "bus", func() error {
		b, err := bus.Connect(ctx, n.o.Bus)
		n.Bus = b
		return err
	})
	if err != nil {
		return err
	}
	n.parts.Push("bus", func(context.Context) error { n.Bus.Close(); return nil })
	return patiently(ctx, n.log, "topology", func() error { return n.Bus.Check(ctx, Topology(n.o)) })
}

// patiently tries until it works, ctx ends, or waiting cannot help.
func patiently(ctx context.Context, log *slog.Logger, what string, try func() error) error {
	wait := backoff.NewExponentialBackOff()
	wait.MaxInterval = 5 * time.Second
	for attempt := 1; ; attempt++ {
		err := try()
		if err == nil || errors.Is(err, store.ErrSchema) || ctx.Err() != nil {
			return err
		}
		log.WarnContext(ctx, "engine is not there yet", "engine", what, "attempt", attempt, "cause", err.Error())
		timer := time.NewTimer(wait.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%s: %w", what, errors.Join(err, ctx.Err()))
		}
	}
}

// Topology gives the streams and durables for a configuration.
func Topology(o Options) topology.Topology {
	params := o.Topology
	params.Replicas = o.Config.NATS.Replicas
	params.HistoryAge = o.Config.Retention.StreamSeconds.Duration()
	return topology.Build(params)
}

// Migrate brings both schemas up to this build: tables, and streams with their
// durables. Several processes may call it at once.
func Migrate(ctx context.Context, o Options) error {
	o.withDefaults()
	owner := o.Config.Database.OwnerURL.Reveal()
	if owner == "" {
		owner = o.Database
	}
	if err := store.Migrate(ctx, owner); err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	b, err := bus.Connect(ctx, o.Bus)
	if err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	defer b.Close()
	changes, err := b.Provision(ctx, Topology(o))
	for _, c := range changes {
		o.Logger.InfoContext(ctx, "topology changed", "change", c.String())
	}
	if err != nil {
		return fmt.Errorf("topology: %w", err)
	}
	return nil
}

// Close releases what the node holds, in reverse order.
func (n *Node) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return n.parts.Release(ctx) //nolint:wrapcheck // each part is named
}

// Run runs the given services, and the eager publisher they share, until ctx
// ends or one of them fails. ready, unless nil, is called when all are.
func (n *Node) Run(ctx context.Context, ready func(), services ...Service) error {
	g := supervise.NewGroup()
	for _, name := range services {
		s, err := n.service(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		g.Add(string(name), s)
	}
	// The publisher outlives the services: their last commits are announced too.
	publishing, stop := context.WithCancel(context.WithoutCancel(ctx))
	published := make(chan error, 1)
	go func() { published <- n.publisher.Run(publishing, n.Bus, n.Store) }()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-g.Ready():
			if ready != nil {
				ready()
			}
		case <-ctx.Done():
		case <-publishing.Done():
		}
	}()
	stopped := n.letGo(ctx)
	err := g.Run(ctx)
	stopped()
	stop()
	<-watched
	return errors.Join(err, <-published)
}

func workspaceDir(o Options) string {
	if dir := o.Config.Workspace.Directory; dir != "" {
		return dir
	}
	if o.DataDir != "" {
		return filepath.Join(o.DataDir, "workspaces")
	}
	return filepath.Join(os.TempDir(), "toolbus-workspaces")
}
