package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Service is a part of the process.
type Service interface {
	// Run works until ctx ends, and returns once everything it started is over.
	// A service that ends because ctx did returns nil or the context's error.
	Run(ctx context.Context) error
	// Ready is closed when the service does its work for others.
	Ready() <-chan struct{}
}

// ErrEnded says that a service returned though nobody had asked it to stop.
var ErrEnded = errors.New("ended unasked")

// Group runs services side by side. It is itself a [Service]; Run is called
// once, after the last Add.
type Group struct {
	members []member
	ready   chan struct{}
}

type member struct {
	name    string
	service Service
}

// NewGroup returns an empty group.
func NewGroup() *Group { return &Group{ready: make(chan struct{})} }

// Add makes the service part of the group under a name, which its errors carry.
func (g *Group) Add(name string, service Service) {
	g.members = append(g.members, member{name: name, service: service})
}

// Ready is closed when every service is ready. It stays open if one ends before.
func (g *Group) Ready() <-chan struct{} { return g.ready }

// Run runs every service and returns when all have returned. When one returns,
// the context of the others is cancelled; the error of the first names the
// cause. After an orderly end, where ctx ended first, context errors are dropped.
func (g *Group) Run(ctx context.Context) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()

	results := make(chan error, len(g.members))
	for _, m := range g.members {
		go func() { results <- m.run(inner, ctx) }()
	}
	var watch sync.WaitGroup
	watch.Go(func() { g.awaitReady(inner) })

	var errs []error
	for range g.members {
		if err := <-results; err != nil {
			errs = append(errs, err)
		}
		cancel()
	}
	cancel()
	watch.Wait()
	return errors.Join(errs...)
}

func (g *Group) awaitReady(ctx context.Context) {
	for _, m := range g.members {
		select {
		case <-m.service.Ready():
		case <-ctx.Done():
			return
		}
	}
	close(g.ready)
}

// run runs the member under inner, the group's context. outer is the caller's:
// it tells an orderly end from the loss of a member.
func (m member) run(inner, outer context.Context) error {
	err := m.service.Run(inner)
	switch {
	case inner.Err() != nil && (err == nil || errors.Is(err, context.Canceled) || errors.Is(err, outer.Err())):
		return nil
	case err == nil:
		err = ErrEnded
	}
	return fmt.Errorf("%s: %w", m.name, err)
}
