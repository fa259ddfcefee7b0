package gatekeeper

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/subjects"
)

// Service is the gatekeeper.
type Service struct {
	o        Options
	admitter *pipeline.Admitter
	sessions *pipeline.SessionCache
	open     tenantCounts
	ready    chan struct{}
}

// New makes a gatekeeper; [Service.Run] makes it work.
func New(o Options) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Service{
		o: o,
		admitter: pipeline.NewAdmitter(pipeline.AdmitOptions{
			Store: o.Store, Table: o.Table, Profiles: o.Profiles, Disabled: o.Disabled,
			ApprovalExpiry: o.ApprovalExpiry, Probe: o.Probe,
		}),
		sessions: pipeline.NewSessionCache(o.Store),
		open:     tenantCounts{limit: o.TenantOpen, held: map[string]int{}},
		ready:    make(chan struct{}),
	}, nil
}

// Ready is closed once the service answers requests.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// Run consumes and answers until ctx ends, finishes what is under way and
// returns nil; an error is one that no waiting can mend.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	away := func() bool { return s.o.Store.Away() > 0 }
	g.Go(func() error {
		return s.o.Bus.Consume(ctx, subjects.StreamPropose, subjects.DurableProposals, s.o.Concurrency, away, s.proposal)
	})
	g.Go(func() error {
		return s.o.Bus.Consume(ctx, subjects.StreamCommand, subjects.DurableCommands, max(1, s.o.Concurrency/16), away, s.command)
	})
	g.Go(func() error {
		return s.o.Bus.Serve(ctx, subjects.ServiceGatekeeper, s.verbs(), func() { close(s.ready) })
	})
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("gatekeeper: %w", err)
	}
	return nil
}
