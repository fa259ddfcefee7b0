package observe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrStalled says that work waits and none is taken.
var ErrStalled = errors.New("work waits and none is taken")

// Work is what a progress check looks at.
type Work struct {
	// Pending is how much waits.
	Pending int64
	// Paused says that nothing is taken on purpose.
	Paused bool
	// Last is when something was last taken; zero when nothing ever was.
	Last time.Time
}

// NewProgress makes a check that fails once work has waited for longer than
// patience without any of it being taken. A connection that stands proves
// nothing: a consumer can be connected, beat its heart and receive nothing.
// Idle time does not count, however long: the wait begins when work is first
// seen. An error of sample fails the check, too.
func NewProgress(patience time.Duration, sample func(ctx context.Context) (Work, error)) Check {
	// A check is never made twice at the same time.
	var waiting time.Time
	return func(ctx context.Context) error {
		work, err := sample(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		if work.Pending <= 0 || work.Paused {
			waiting = time.Time{}
			return nil
		}
		if waiting.IsZero() || work.Last.After(waiting) {
			waiting = later(work.Last, waiting, now)
		}
		if idle := now.Sub(waiting); idle > patience {
			return fmt.Errorf("%w for %s", ErrStalled, idle.Round(time.Second))
		}
		return nil
	}
}

// later gives when the wait begins: with the last progress since it began, or
// now when it only just did.
func later(last, waiting, now time.Time) time.Time {
	if waiting.IsZero() {
		return now
	}
	return last
}
