package testsignal_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/toolbus/toolbus/internal/testsignal"
)

func TestZeroValueDoesNothing(t *testing.T) {
	t.Parallel()
	var s testsignal.Signal[int]
	for range 1000 {
		s.Send(1)
	}
	if n := s.Drain(); n != 0 {
		t.Errorf("Drain() = %d", n)
	}
	if _, err := s.Wait(t.Context()); err == nil {
		t.Error("Wait on a signal that is off succeeded")
	}
}

func TestValuesArriveInOrder(t *testing.T) {
	t.Parallel()
	var s testsignal.Signal[int]
	s.Enable("counted")
	for i := range 3 {
		s.Send(i)
	}
	for want := range 2 {
		got, err := s.Wait(t.Context())
		if err != nil || got != want {
			t.Fatalf("Wait() = %d, %v, want %d", got, err, want)
		}
	}
	if n := s.Drain(); n != 1 {
		t.Errorf("Drain() = %d, want 1", n)
	}
}

func TestSendNeverBlocks(t *testing.T) {
	t.Parallel()
	var s testsignal.Signal[int]
	s.Enable("flooded")
	for i := range 10_000 {
		s.Send(i)
	}
	if got, err := s.Wait(t.Context()); err != nil || got != 0 {
		t.Errorf("Wait() = %d, %v, want the first value", got, err)
	}
}

func TestWaitFor(t *testing.T) {
	t.Parallel()
	var s testsignal.Signal[string]
	s.Enable("state")
	for _, state := range []string{"starting", "running", "done"} {
		s.Send(state)
	}
	got, err := s.WaitFor(t.Context(), func(v string) bool { return v == "running" })
	if err != nil || got != "running" {
		t.Errorf("WaitFor() = %q, %v", got, err)
	}
	if got, err := s.Wait(t.Context()); err != nil || got != "done" {
		t.Errorf("Wait() after WaitFor = %q, %v", got, err)
	}
}

func TestWaitNamesTheSignal(t *testing.T) {
	t.Parallel()
	var s testsignal.Signal[int]
	s.Enable("batch_updated")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Wait(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "batch_updated") {
		t.Errorf("Wait() = %v", err)
	}
}
