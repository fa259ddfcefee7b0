package observe_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolbus/toolbus/internal/observe"
)

var errSick = errors.New("secret detail")

// run makes the checks until the test function returns.
func run(t *testing.T, c *observe.Checks, test func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	<-c.Ready()
	test()
	stop()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

func ask(t *testing.T, h http.Handler) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	return w.Code, w.Body.String()
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := observe.NewChecks(nil)
		var sick atomic.Bool
		for name, check := range map[string]observe.Check{
			"bus": func(context.Context) error {
				if sick.Load() {
					return errSick
				}
				return nil
			},
			"store": func(context.Context) error { return nil },
		} {
			if err := c.Add(name, check); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(status int, body string) {
			t.Helper()
			synctest.Wait()
			if code, got := ask(t, c.Readiness()); code != status || got != body+"\n" {
				t.Errorf("readiness %d %s, want %d %s", code, got, status, body)
			}
		}
		expect(503, `{"failing":[{"name":"bus","since":"2000-01-01T00:00:00Z"},{"name":"store","since":"2000-01-01T00:00:00Z"}],"ready":false}`)
		run(t, c, func() {
			expect(200, `{"failing":[],"ready":true}`)
			elapse(time.Second)
			synctest.Wait()
			sick.Store(true)
			elapse(time.Minute)
			expect(503, `{"failing":[{"name":"bus","since":"2000-01-01T00:00:02Z"}],"ready":false}`)
			sick.Store(false)
			elapse(2 * time.Second)
			expect(200, `{"failing":[],"ready":true}`)
		})
		if code, got := ask(t, c.Live()); code != 200 || got != "{\"alive\":true}\n" {
			t.Errorf("liveness %d %s", code, got)
		}
		// Nobody makes the checks any more: what they said means nothing.
		elapse(time.Minute)
		if code, _ := ask(t, c.Readiness()); code != 503 {
			t.Error("ready by results from a minute ago")
		}
	})
}

func TestCheckThatHangsHoldsNoOtherUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := observe.NewChecks(nil)
		var made atomic.Int64
		if err := errors.Join(
			c.Add("hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }),
			c.Add("works", func(context.Context) error { made.Add(1); return nil }),
		); err != nil {
			t.Fatal(err)
		}
		run(t, c, func() {
			elapse(21 * time.Second)
			synctest.Wait()
			var names []string
			for _, f := range c.Failing() {
				names = append(names, f.Name)
			}
			if !slices.Equal(names, []string{"hangs"}) || made.Load() != 11 {
				t.Errorf("%v fail, the other check was made %d times", names, made.Load())
			}
		})
	})
}

func TestAddIsRefused(t *testing.T) {
	t.Parallel()
	c := observe.NewChecks(nil)
	pass := func(context.Context) error { return nil }
	if err := c.Add("bus", pass); err != nil {
		t.Fatal(err)
	}
	if err := c.Add("bus", pass); !errors.Is(err, observe.ErrChecks) {
		t.Errorf("the same name again: %v", err)
	}
	run(t, c, func() {
		if err := c.Add("late", pass); !errors.Is(err, observe.ErrChecks) {
			t.Errorf("while the checks run: %v", err)
		}
	})
}

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var work observe.Work
		var broken error
		check := observe.NewProgress(30*time.Second, func(context.Context) (observe.Work, error) { return work, broken })
		expect := func(after time.Duration, what string, want error) {
			t.Helper()
			elapse(after)
			if err := check(t.Context()); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		work.Last = time.Now()
		expect(time.Hour, "idle for an hour", nil)
		work.Pending = 5
		expect(time.Minute, "work has only just come", nil)
		expect(30*time.Second, "it waits for as long as it may", nil)
		expect(time.Second, "it waits for longer", observe.ErrStalled)
		work.Last = time.Now()
		expect(30*time.Second, "some was taken", nil)
		expect(time.Second, "and then none", observe.ErrStalled)
		work.Paused = true
		expect(time.Hour, "paused", nil)
		work.Paused = false
		expect(time.Second, "resumed", nil)
		expect(31*time.Second, "resumed in vain", observe.ErrStalled)
		work.Pending = 0
		expect(time.Second, "done", nil)
		broken = errSick
		expect(time.Second, "unknown", errSick)
	})
}

// elapse lets the time of a synctest bubble pass.
func elapse(d time.Duration) { <-time.NewTimer(d).C }
