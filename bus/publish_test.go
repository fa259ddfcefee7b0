package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

func proposal(t testing.TB, body string) subjects.Publication {
	t.Helper()
	subject, err := subjects.Propose("acme", tool.NewID())
	if err != nil {
		t.Fatal(err)
	}
	return subjects.Publication{Stream: subjects.StreamPropose, Subject: subject, Data: []byte(body)}
}

func outcome(t testing.TB, id, body string) subjects.Publication {
	t.Helper()
	subject, err := subjects.OutcomeFor("acme", tool.NewID())
	if err != nil {
		t.Fatal(err)
	}
	return subjects.Publication{Stream: subjects.StreamOutcome, Subject: subject, ID: id, Data: []byte(body)}
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func mustPublish(t testing.TB, b *bus.Bus, pubs ...subjects.Publication) {
	t.Helper()
	if err := errors.Join(b.Publish(within(t, 10*time.Second), pubs)...); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

func TestPublishResults(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	wrong := proposal(t, "{}")
	wrong.Stream = subjects.StreamCommand
	nowhere := proposal(t, "{}")
	nowhere.Subject = "toolbus.nowhere"
	big := proposal(t, strings.Repeat("x", 900<<10))
	huge := proposal(t, strings.Repeat("x", 2<<20))
	good := proposal(t, "{}")
	errs := b.Publish(within(t, 10*time.Second), []subjects.Publication{good, wrong, nowhere, big, huge, good})
	want := []error{nil, bus.ErrWrongStream, bus.ErrNoStream, bus.ErrTooLarge, bus.ErrTooLarge, nil}
	for i := range want {
		if !errors.Is(errs[i], want[i]) {
			t.Errorf("publication %d: %v, want %v", i, errs[i], want[i])
		}
	}
	if n := count(t, b, subjects.StreamPropose); n != 2 {
		t.Errorf("stream holds %d messages, want the 2 good ones and not the one meant for another stream", n)
	}
}

func TestDuplicateIsSuccess(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	a := outcome(t, "outcome:a:0", "one")
	mustPublish(t, b, a, a)
	mustPublish(t, b, a)
	a.ID = "outcome:a:1"
	mustPublish(t, b, a)
	if got := count(t, b, subjects.StreamOutcome); got != 2 {
		t.Errorf("stream holds %d messages, want one for each of two ids", got)
	}
}

func TestPublishAsync(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	results := make(chan []error, 64)
	var pubs []subjects.Publication
	for i := range 50 {
		pubs = append(pubs, outcome(t, fmt.Sprintf("id-%d", i), "x"))
	}
	for range 2 {
		b.PublishAsync(pubs, func(errs []error) { results <- errs })
	}
	b.PublishAsync(nil, func(errs []error) { results <- errs })
	for range 3 {
		select {
		case errs := <-results:
			if err := errors.Join(errs...); err != nil {
				t.Errorf("asynchronous publish: %v", err)
			}
		case <-within(t, 10*time.Second).Done():
			t.Fatal("no results")
		}
	}
}

func TestPublishBounds(t *testing.T) {
	t.Parallel()
	account := bustest.NewAccount(t, bustest.Small())
	b := account.Connect(t, bus.Options{Name: "bounded", MaxPending: 8})
	var pubs []subjects.Publication
	for i := range 500 {
		pubs = append(pubs, outcome(t, fmt.Sprintf("id-%d", i), "x"))
	}
	results := make(chan []error, 1)
	b.PublishAsync(pubs, func(errs []error) { results <- errs })
	errs := <-results
	busy := 0
	for _, err := range errs {
		if errors.Is(err, bus.ErrBusy) {
			busy++
		} else if err != nil {
			t.Errorf("unexpected: %v", err)
		}
	}
	if busy != 492 {
		t.Errorf("%d publications found no room, want 492 of 500 with room for 8", busy)
	}
	mustPublish(t, b, pubs...)
}

func TestPublishEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := b.Publish(ctx, []subjects.Publication{proposal(t, "{}")})
	if errs[0] != nil && !errors.Is(errs[0], bus.ErrUnacknowledged) {
		t.Errorf("got %v, want unacknowledged or success", errs[0])
	}
}

func TestFullWorkQueueRefuses(t *testing.T) {
	t.Parallel()
	params := bustest.Small()
	params.WorkBytes = 64 << 10
	b := bustest.NewAccount(t, params).Connect(t, bus.Options{Name: "full"})
	var pubs []subjects.Publication
	for range 12 {
		pubs = append(pubs, proposal(t, strings.Repeat("x", 10<<10)))
	}
	errs := b.Publish(within(t, 10*time.Second), pubs)
	stored := 0
	for _, err := range errs {
		switch {
		case err == nil:
			stored++
		case !errors.Is(err, bus.ErrStreamFull):
			t.Errorf("unexpected: %v", err)
		}
	}
	if stored == 0 || stored == len(pubs) || count(t, b, subjects.StreamPropose) != stored {
		t.Errorf("%d stored, stream holds %d", stored, count(t, b, subjects.StreamPropose))
	}
}

func TestClosedBus(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	b.Close()
	if err := b.Healthy(); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("healthy: %v", err)
	}
	if errs := b.Publish(t.Context(), []subjects.Publication{proposal(t, "{}")}); !errors.Is(errs[0], bus.ErrClosed) {
		t.Errorf("publish: %v", errs[0])
	}
	called := false
	b.PublishAsync([]subjects.Publication{proposal(t, "{}")}, func(errs []error) {
		called = errors.Is(errs[0], bus.ErrClosed)
	})
	if !called {
		t.Error("asynchronous publish on a closed bus did not say so")
	}
}
