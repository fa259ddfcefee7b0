package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/internal/supervise"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/services/executor"
	"github.com/toolbus/toolbus/services/gatekeeper"
	"github.com/toolbus/toolbus/services/recovery"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

func (n *Node) service(ctx context.Context, name Service) (supervise.Service, error) {
	switch name {
	case Gatekeeper:
		return n.gatekeeper()
	case Executor:
		return n.executor()
	case Recovery:
		return n.recovery()
	case Telemetry:
		return n.newTelemetry(ctx)
	}
	return nil, fmt.Errorf("no such service")
}

func (n *Node) gatekeeper() (supervise.Service, error) {
	c := n.o.Config
	trust := map[string]tool.Trust{}
	for tenant := range c.Tenants {
		trust[tenant] = tool.Trust(c.MaximumTrust(tenant))
	}
	return gatekeeper.New(gatekeeper.Options{
		Store: n.Store, Bus: busPort{Bus: n.Bus, version: n.o.Version}, Catalog: &catalog{registry: n.registry, store: n.Store},
		Table: n.table, Logger: n.log, Profiles: n.profiles, DefaultProfile: c.Policy.DefaultProfile,
		Disabled: c.Tools.Disabled, MaxTrust: trust, Concurrency: c.Gatekeeper.Concurrency,
		ApprovalExpiry: c.Approval.ExpirySeconds.Duration(), RunDeadline: c.Run.DeadlineSeconds.Duration(), Probe: n.probe(), Counted: n.metrics.Proposal,
	})
}

func (n *Node) executor() (supervise.Service, error) {
	c := n.o.Config
	x := pipeline.NewExecutor(pipeline.ExecuteOptions{
		Store: n.Store, Tools: &tools{registry: n.registry, store: n.Store, devices: n.o.Devices},
		Workspaces: &workspaces{dir: workspaceDir(n.o)}, Credentials: newCredentials(c.Credentials, n.o.Getenv),
		Table: n.table, InlineMaximum: c.Output.InlineMaximumBytes, Disabled: c.Tools.Disabled,
		Logger: n.log, Probe: n.o.Probe, Observe: n.observer(),
	})
	s, err := executor.New(executor.Options{
		Store: n.Store, Bus: busPort{Bus: n.Bus, version: n.o.Version}, Executor: x, Logger: n.log,
		Targets: []tool.Target{tool.InProcess, tool.SandboxTarget, tool.WebProvider, tool.DeviceTarget},
		Owner:   n.name, Slots: c.Executor.Slots, TenantShare: c.Executor.TenantShare, Lease: c.Lease.Seconds.Duration(),
		Window: c.Batch.Concurrency, MaximumAttempts: c.Recovery.MaximumAttempts, DrainTimeout: n.o.DrainTimeout, Probe: n.o.Probe,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it names itself
	}
	n.claims.Store(s)
	return s, nil
}

func (n *Node) recovery() (supervise.Service, error) {
	c := n.o.Config
	return recovery.New(recovery.Options{
		Store: n.Store, Bus: n.Bus, Table: n.table, Logger: n.log, Sweep: c.Recovery.SweepSeconds.Duration(),
		Retry: c.Dispatch.RetrySeconds.Duration(), Takeover: c.Outbox.TakeoverSeconds.Duration(),
		MaximumAttempts: c.Recovery.MaximumAttempts, Unpublishable: func(err error) bool { return errors.Is(err, bus.ErrTooLarge) },
	})
}

// busPort shapes the bus to the ports of the services.
type busPort struct {
	*bus.Bus
	version string
}

func (b busPort) Consume(ctx context.Context, stream, durable string, concurrency int, pause func() bool,
	handle func(context.Context, subjects.Delivery) subjects.Verdict,
) error {
	return b.Bus.Consume(ctx, bus.ConsumerConfig{Stream: stream, Durable: durable, Concurrency: concurrency, Pause: pause}, handle)
}

func (b busPort) ConsumeBatch(ctx context.Context, stream, durable string, slots func() int, wake <-chan struct{}, pause func() bool,
	handle func(context.Context, []subjects.Delivery) []subjects.Verdict,
) error {
	return b.Bus.ConsumeBatch(ctx, bus.BatchConfig{Stream: stream, Durable: durable, Slots: slots, Wake: wake, Pause: pause}, handle)
}

func (b busPort) Serve(ctx context.Context, name string, verbs []gatekeeper.Verb, ready func()) error {
	endpoints := make([]bus.Endpoint, len(verbs))
	for i, v := range verbs {
		endpoints[i] = bus.Endpoint{Verb: v.Name, Subject: v.Subject, Handler: v.Handle}
	}
	return b.Bus.Serve(ctx, bus.RPCService{Name: "toolbus-" + name, Version: b.version, Endpoints: endpoints, Ready: ready})
}
