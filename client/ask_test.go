package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolbus/toolbus/subjects"
)

// bench waits for a step of one call, without a bus.
func bench(t *testing.T, fill func(context.Context, time.Duration), lost func() <-chan struct{}) (*record, func(context.Context) error) {
	t.Helper()
	r := newRecord([]subjects.Call{{CallID: "a"}}, 0)
	a := &asker{fill: fill, lost: lost, over: make(chan struct{})}
	a.restart()
	return r, func(ctx context.Context) error {
		for _, err := range answers(ctx, r, a) {
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func never() <-chan struct{} { return nil }

// The contract's schedule: after 1, 2, 5, then every 10 seconds.
func TestSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		_, wait := bench(t, func(context.Context, time.Duration) { at = append(at, time.Since(began)) }, never)
		ctx, cancel := context.WithTimeout(t.Context(), 36*time.Second)
		defer cancel()
		if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		want := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second, 25 * time.Second, 35 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("asked at %v, want %v", at, want)
		}
	})
}

// Two who wait ask no more often than one, and one who comes late asks once for
// what was missed.
func TestScheduleIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asks := 0
		_, wait := bench(t, func(ctx context.Context, _ time.Duration) {
			asks++
			<-ctx.Done() // a service that does not answer
		}, never)
		time.Sleep(20 * time.Second) //nolint:forbidigo // the clock of the bubble
		done := make(chan error, 2)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			go func() { done <- wait(ctx) }()
		}
		<-done
		<-done
		if asks != 1 {
			t.Errorf("asked %d times", asks)
		}
	})
}

// A reconnect is a reason to ask at once.
func TestAskAfterReconnect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan struct{})
		watched := false
		began := time.Now()
		var r *record
		fill := func(context.Context, time.Duration) { r.fail(ErrClosed) }
		r, wait := bench(t, fill, func() <-chan struct{} {
			if watched {
				return nil
			}
			watched = true
			return lost
		})
		time.AfterFunc(100*time.Millisecond, func() { close(lost) })
		if err := wait(t.Context()); !errors.Is(err, ErrClosed) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// Whoever stops waiting leaves nothing running.
func TestBreakOutOfIteration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asking := make(chan struct{})
		ended := false
		r := newRecord([]subjects.Call{{CallID: "a"}, {CallID: "b"}}, 0)
		a := &asker{over: make(chan struct{}), lost: never, fill: func(ctx context.Context, _ time.Duration) {
			close(asking)
			<-ctx.Done()
			ended = true
		}}
		a.restart()
		go func() {
			<-asking
			r.take(subjects.Answer{Outcome: &subjects.Outcome{CallID: "a"}})
		}()
		for answer, err := range answers(t.Context(), r, a) {
			if err != nil || answer.Outcome.CallID != "a" {
				t.Fatalf("got %+v, %v", answer, err)
			}
			break
		}
		if !ended {
			t.Error("the question outlived the iteration")
		}
	})
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	a := &asker{}
	var repeated []time.Duration
	for at := time.Duration(0); at < 100*time.Second; at = askAfter(at) {
		if a.repeats(at) {
			repeated = append(repeated, at)
		}
	}
	want := []time.Duration{5 * time.Second, 15 * time.Second, 35 * time.Second, 75 * time.Second}
	if !slices.Equal(repeated, want) {
		t.Errorf("repeated at %v, want %v", repeated, want)
	}
}

// A call is unknown only when neither list has it.
func TestMentions(t *testing.T) {
	t.Parallel()
	s := StepState{Open: []string{"open"}, Answers: []subjects.Answer{
		{Outcome: &subjects.Outcome{CallID: "ended"}}, {Pending: &subjects.Pending{CallID: "waits"}},
	}}
	for id, want := range map[string]bool{"open": true, "ended": true, "waits": true, "unknown": false} {
		if s.mentions(id) != want {
			t.Errorf("%s: got %v", id, !want)
		}
	}
}
