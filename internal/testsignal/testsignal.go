// Package testsignal lets a loop tell a test that something has happened, so
// that tests wait for events instead of sleeping.
//
// A service keeps a struct of signals in its internals. In production nobody
// turns them on: a zero [Signal] does nothing and never blocks. This package does
// not import testing, so it may be linked into the program.
package testsignal

import (
	"context"
	"fmt"
)

// capacity is how many signals may be sent before the first is awaited. A loop
// that sends more loses the surplus: a signal says "it has happened", it does
// not count.
const capacity = 64

// Signal is sent by the code under test and awaited by the test. The zero
// value is off. Send and Wait are safe for concurrent use; Enable comes before
// both.
type Signal[T any] struct {
	name string
	ch   chan T
}

// Enable turns the signal on; the name is for the error of [Signal.Wait].
func (s *Signal[T]) Enable(name string) {
	s.name = name
	s.ch = make(chan T, capacity)
}

// Send reports that something has happened. It never blocks.
func (s *Signal[T]) Send(value T) {
	if s.ch == nil {
		return
	}
	select {
	case s.ch <- value:
	default:
	}
}

// Wait returns the next value sent, or an error that names the signal when ctx
// ends first.
func (s *Signal[T]) Wait(ctx context.Context) (T, error) {
	var none T
	if s.ch == nil {
		return none, fmt.Errorf("testsignal: waiting for a signal that is off")
	}
	select {
	case value := <-s.ch:
		return value, nil
	case <-ctx.Done():
		return none, fmt.Errorf("testsignal: %s was not sent: %w", s.name, context.Cause(ctx))
	}
}

// WaitFor returns the first value sent that satisfies the condition; earlier
// ones are dropped.
func (s *Signal[T]) WaitFor(ctx context.Context, condition func(T) bool) (T, error) {
	for {
		value, err := s.Wait(ctx)
		if err != nil || condition(value) {
			return value, err
		}
	}
}

// Drain drops what was sent and not awaited, and returns how much that was.
func (s *Signal[T]) Drain() int {
	for n := 0; ; n++ {
		select {
		case <-s.ch:
		default:
			return n
		}
	}
}
