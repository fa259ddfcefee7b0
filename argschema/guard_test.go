package argschema

import (
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func remoteSchema(t *testing.T) *Schema {
	t.Helper()
	s, err := Compile(json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`), Remote())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWatchdogQuarantines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := remoteSchema(t)
		release := make(chan struct{})
		var started atomic.Int32
		s.guard.validate = func(any) error {
			started.Add(1)
			<-release
			return nil
		}
		begin := time.Now()
		var callers sync.WaitGroup
		for range 5 {
			callers.Go(func() {
				if _, err := s.Arguments(json.RawMessage(`{}`)); !errors.Is(err, ErrQuarantined) {
					t.Errorf("error = %v, want quarantine", err)
				}
			})
		}
		callers.Wait()
		if waited := time.Since(begin); waited != 250*time.Millisecond {
			t.Errorf("callers waited %v", waited)
		}
		if n := started.Load(); n != 1 {
			t.Errorf("%d validations were started, want 1", n)
		}
		close(release)
		synctest.Wait()
		if _, err := s.Arguments(json.RawMessage(`{}`)); !errors.Is(err, ErrQuarantined) {
			t.Errorf("after the end: error = %v, want quarantine", err)
		}
	})
}

func TestPanicQuarantines(t *testing.T) {
	t.Parallel()
	s := remoteSchema(t)
	s.guard.validate = func(any) error { panic("broken") }
	for range 2 {
		if _, err := s.Arguments(json.RawMessage(`{}`)); !errors.Is(err, ErrQuarantined) {
			t.Errorf("error = %v, want quarantine", err)
		}
		s.guard.validate = func(any) error { return nil }
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"builtin": Builtin(), "remote": Remote()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Compile(json.RawMessage(`{"type":"object","properties":{"o":{"default":{"l":[1]}},"a":{"type":"string"}}}`), o)
			if err != nil {
				t.Fatal(err)
			}
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					for range 50 {
						form, err := s.Arguments(json.RawMessage(`{"a":"x"}`))
						if err != nil || string(form) != `{"a":"x","o":{"l":[1]}}` {
							t.Errorf("form %s, %v", form, err)
						}
						if _, err := s.Arguments(json.RawMessage(`{"a":1}`)); err == nil {
							t.Error("accepted a number for a string")
						}
					}
				})
			}
			callers.Wait()
		})
	}
}
