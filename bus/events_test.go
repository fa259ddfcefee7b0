package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

func event(t testing.TB, tenant, name string) subjects.Publication {
	t.Helper()
	subject, err := subjects.EventFor(tenant, tool.NewID(), name)
	if err != nil {
		t.Fatal(err)
	}
	return subjects.Publication{Stream: subjects.StreamEvent, Subject: subject, Data: []byte("{}")}
}

func TestReadEvents(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	mustPublish(t, b, event(t, "acme", "run.failed"), event(t, "other", "run.failed"), event(t, "acme", "tool.call.uncertain"))
	stream, err := b.EventStream(within(t, 5*time.Second))
	if err != nil || stream.First != 1 || stream.Last != 3 || stream.Incarnation == "" {
		t.Fatalf("stream: %+v, %v", stream, err)
	}
	got := make(chan subjects.Delivery, 10)
	collect := func(d subjects.Delivery) error { got <- d; return nil }
	start(t, func(ctx context.Context) error {
		config := bus.EventsConfig{Filter: []string{"toolbus.event.acme.>"}, FromSequence: 1, Incarnation: stream.Incarnation}
		return b.ReadEvents(ctx, config, collect)
	})
	mustPublish(t, b, event(t, "acme", "command.settled"))
	all := receive(t, got, 3)
	for i, want := range []uint64{1, 3, 4} {
		if all[i].Sequence != want {
			t.Errorf("event %d has sequence %d, want %d", i, all[i].Sequence, want)
		}
	}
}

func TestReadEventsFromNow(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	mustPublish(t, b, event(t, "acme", "run.failed"))
	got := make(chan subjects.Delivery, 100)
	start(t, func(ctx context.Context) error {
		return b.ReadEvents(ctx, bus.EventsConfig{}, func(d subjects.Delivery) error { got <- d; return nil })
	})
	eventually(t, "a new event is read", func() bool {
		mustPublish(t, b, event(t, "acme", "run.cancelled"))
		return len(got) > 0
	})
	if first := <-got; first.Sequence < 2 {
		t.Errorf("read an event from before: %d", first.Sequence)
	}
}

func TestReadEventsEnds(t *testing.T) {
	t.Parallel()
	account := bustest.NewAccount(t, bustest.Small())
	b := account.Connect(t, bus.Options{Name: "reader"})
	mustPublish(t, b, event(t, "acme", "run.failed"))
	stop := errors.New("enough")
	err := b.ReadEvents(t.Context(), bus.EventsConfig{FromSequence: 1}, func(subjects.Delivery) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("the handler's error: %v", err)
	}
	before, err := b.EventStream(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	seen := make(chan struct{}, 10)
	go func() {
		ended <- b.ReadEvents(t.Context(), bus.EventsConfig{FromSequence: 1}, func(subjects.Delivery) error {
			seen <- struct{}{}
			return nil
		})
	}()
	receive(t, seen, 1)
	if err := b.JetStream().DeleteStream(within(t, 5*time.Second), subjects.StreamEvent); err != nil {
		t.Fatal(err)
	}
	account.Provision(t)
	if err := receive(t, ended, 1)[0]; !errors.Is(err, bus.ErrIncarnation) {
		t.Errorf("after the stream was created anew: %v", err)
	}
	err = b.ReadEvents(t.Context(), bus.EventsConfig{FromSequence: 1, Incarnation: before.Incarnation}, func(subjects.Delivery) error { return nil })
	if !errors.Is(err, bus.ErrIncarnation) {
		t.Errorf("with an old incarnation: %v", err)
	}
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	listener, err := b.Listen(within(t, 5*time.Second), "toolbus.outcome.acme.*")
	if err != nil {
		t.Fatal(err)
	}
	pub := outcome(t, "outcome:x:0", "{}")
	pub.Header = map[string]string{"tracestate": "a=b"}
	mustPublish(t, b, pub, pub)
	if err := b.Notify(pub.Subject, []byte("direct")); err != nil {
		t.Fatal(err)
	}
	got := make(chan subjects.Delivery, 10)
	start(t, func(ctx context.Context) error {
		listener.Run(ctx, func(d subjects.Delivery) { got <- d })
		return nil
	})
	all := receive(t, got, 3) // the copy that the stream drops is seen here, too
	if all[0].Subject != pub.Subject || all[0].Header["tracestate"] != "a=b" || string(all[2].Data) != "direct" {
		t.Errorf("got %+v", all)
	}
	if err := b.Subscribe(t.Context(), "bad subject", nil); err == nil {
		t.Error("subscribed to a subject with a space")
	}
}
