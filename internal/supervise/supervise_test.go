package supervise_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolbus/toolbus/internal/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// part is a service that is ready when told to be and ends as it is told.
type part struct {
	ready chan struct{}
	run   func(context.Context) error
}

func (p part) Run(ctx context.Context) error { return p.run(ctx) }
func (p part) Ready() <-chan struct{}        { return p.ready }

func newPart(run func(context.Context) error) part { return part{ready: make(chan struct{}), run: run} }

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func open(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return false
	default:
		return true
	}
}

func TestGroupIsReadyWhenAllAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := newPart(untilDone), newPart(untilDone)
		group := supervise.NewGroup()
		group.Add("first", first)
		group.Add("second", second)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- group.Run(ctx) }()

		close(second.ready)
		synctest.Wait()
		if !open(group.Ready()) {
			t.Error("ready though one service is not")
		}
		close(first.ready)
		synctest.Wait()
		if open(group.Ready()) {
			t.Error("not ready though all services are")
		}
		cancel()
		if err := <-result; err != nil {
			t.Errorf("an orderly end returned %v", err)
		}
	})
}

func TestOneEndsAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		run  func(context.Context) error
		want error
	}{
		"with an error":      {func(context.Context) error { return broken }, broken},
		"without one":        {func(context.Context) error { return nil }, supervise.ErrEnded},
		"claiming a cancel":  {func(context.Context) error { return context.Canceled }, context.Canceled},
		"by its own timeout": {func(context.Context) error { return context.DeadlineExceeded }, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group := supervise.NewGroup()
			group.Add("steady", newPart(untilDone))
			group.Add("culprit", newPart(tc.run))
			err := group.Run(t.Context())
			if !errors.Is(err, tc.want) || !strings.HasPrefix(err.Error(), "culprit: ") || strings.Contains(err.Error(), "steady") {
				t.Errorf("Run() = %v, want one error of the culprit", err)
			}
			if !open(group.Ready()) {
				t.Error("a group that lost a service said it was ready")
			}
		})
	}
}

func TestEveryFailureOnTheWayOutIsReported(t *testing.T) {
	t.Parallel()
	late := errors.New("could not flush")
	group := supervise.NewGroup()
	group.Add("first", newPart(func(context.Context) error { return errors.New("broken") }))
	group.Add("second", newPart(func(ctx context.Context) error { <-ctx.Done(); return late }))
	if err := group.Run(t.Context()); !errors.Is(err, late) || !strings.Contains(err.Error(), "first: broken") {
		t.Errorf("Run() = %v", err)
	}
}

func TestEmptyGroupEnds(t *testing.T) {
	t.Parallel()
	if err := supervise.NewGroup().Run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStackReleasesInReverse(t *testing.T) {
	t.Parallel()
	var order []string
	var stack supervise.Stack
	bad := errors.New("would not close")
	for _, name := range []string{"database", "bus", "listener"} {
		stack.Push(name, func(ctx context.Context) error {
			order = append(order, name)
			if name == "bus" {
				return bad
			}
			return ctx.Err()
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the process is ending: that must not end the releases
	err := stack.Release(ctx)
	if diff := cmp.Diff([]string{"listener", "bus", "database"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if !errors.Is(err, bad) || err.Error() != "release bus: would not close" {
		t.Errorf("Release() = %v", err)
	}
	if err := stack.Release(ctx); err != nil || len(order) != 3 {
		t.Errorf("a second Release did something: %v, %v", err, order)
	}
}

func TestStackBoundsEachRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stack := supervise.Stack{Timeout: 10 * time.Second}
		var released []string
		note := func(name string) func(context.Context) error {
			return func(context.Context) error { released = append(released, name); return nil }
		}
		deaf := make(chan struct{})
		stack.Push("first", note("first"))
		stack.Push("deaf", func(context.Context) error { <-deaf; return nil })
		stack.Push("slow", func(ctx context.Context) error { return untilDone(ctx) })
		stack.Push("last", note("last"))

		began := time.Now()
		err := stack.Release(t.Context())
		if took := time.Since(began); took != 21*time.Second {
			t.Errorf("took %s, want 10s for the slow one and 11s for the deaf one", took)
		}
		if !slices.Equal(released, []string{"last", "first"}) {
			t.Errorf("released %v", released)
		}
		for _, want := range []string{"release slow: took longer than 10s", "release deaf: took longer than 10s"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
		close(deaf)
	})
}
