package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Stack holds releases, to be run last in, first out. It is safe for
// concurrent use. The zero value releases without a bound and logs nothing.
type Stack struct {
	// Timeout bounds each release; 0 leaves that to the context of Release.
	Timeout time.Duration
	// Logger receives one line per failed release; nil means none.
	Logger *slog.Logger

	mu       sync.Mutex
	releases []release
}

type release struct {
	name string
	run  func(context.Context) error
}

// Push registers a release under a name. Call it right after the acquisition.
func (s *Stack) Push(name string, run func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releases = append(s.releases, release{name: name, run: run})
}

// Release runs every release, newest first, each under a time bound of its own.
// A release that fails or takes too long does not keep the others from running;
// its error carries its name. A release that ignores its context is left behind.
// What was released is forgotten, so a second call does nothing. The end of ctx
// does not stop a release: it is the usual reason for releasing.
func (s *Stack) Release(ctx context.Context) error {
	s.mu.Lock()
	releases := s.releases
	s.releases = nil
	s.mu.Unlock()

	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, r := range slices.Backward(releases) {
		if err := s.one(ctx, r); err != nil {
			err = fmt.Errorf("release %s: %w", r.name, err)
			if s.Logger != nil {
				s.Logger.WarnContext(ctx, "release failed", "name", r.name, "cause", err)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Stack) one(ctx context.Context, r release) error {
	if s.Timeout <= 0 {
		return r.run(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("took longer than %s", s.Timeout))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// One that heeds its context ends now, and may have ended well.
	grace := time.NewTimer(s.Timeout / 10)
	defer grace.Stop()
	select {
	case err := <-done:
		if err == nil {
			return nil
		}
		return errors.Join(context.Cause(ctx), err)
	case <-grace.C:
		return context.Cause(ctx)
	}
}
