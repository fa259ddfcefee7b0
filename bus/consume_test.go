package bus_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

func proposals(concurrency int) bus.ConsumerConfig {
	return bus.ConsumerConfig{
		Stream: subjects.StreamPropose, Durable: subjects.DurableProposals, Concurrency: concurrency,
		DrainTimeout: 5 * time.Second,
	}
}

// start consumes in the background; the test waits for its end.
func start(t testing.TB, run func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("consume: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// receive waits for n values.
func receive[T any](t testing.TB, from <-chan T, n int) []T {
	t.Helper()
	limit := within(t, 20*time.Second)
	var got []T
	for len(got) < n {
		select {
		case v := <-from:
			got = append(got, v)
		case <-limit.Done():
			t.Fatalf("received %d of %d", len(got), n)
		}
	}
	return got
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	limit := within(t, 20*time.Second)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-limit.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

func publishMany(t testing.TB, b *bus.Bus, n int) {
	t.Helper()
	pubs := make([]subjects.Publication, n)
	for i := range pubs {
		pubs[i] = proposal(t, fmt.Sprintf(`{"i":%d}`, i))
	}
	mustPublish(t, b, pubs...)
}

func TestConsumeSettles(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	trace := proposal(t, "{}")
	trace.Header = map[string]string{"traceparent": "00-aa-bb-01", "other": "dropped"}
	mustPublish(t, b, trace)
	publishMany(t, b, 99)
	got := make(chan subjects.Delivery, 200)
	start(t, func(ctx context.Context) error {
		return b.Consume(ctx, proposals(8), func(_ context.Context, d subjects.Delivery) subjects.Verdict {
			got <- d
			return subjects.Ack()
		})
	})
	all := receive(t, got, 100)
	first := all[0]
	for _, d := range all {
		if d.Deliveries != 1 || d.Sequence == 0 {
			t.Errorf("delivery %d of sequence %d", d.Deliveries, d.Sequence)
		}
		if d.Sequence == 1 {
			first = d
		}
	}
	if len(first.Header) != 1 || first.Header["traceparent"] != "00-aa-bb-01" || first.Subject != trace.Subject {
		t.Errorf("trace header or subject lost: %v", first)
	}
	eventually(t, "work queue empty", func() bool { return count(t, b, subjects.StreamPropose) == 0 })
}

// One slow worker and a hundred queued messages: nothing is delivered twice,
// because no more is asked for than can be handled.
func TestNoMoreThanSlots(t *testing.T) {
	t.Parallel()
	params := bustest.Small()
	params.AckWait = 200 * time.Millisecond
	b := bustest.NewAccount(t, params).Connect(t, bus.Options{Name: "slow"})
	publishMany(t, b, 30)
	var handled, again, atOnce, most atomic.Int64
	finished := make(chan struct{}, 100)
	start(t, func(ctx context.Context) error {
		return b.Consume(ctx, proposals(2), func(ctx context.Context, d subjects.Delivery) subjects.Verdict {
			if n := atOnce.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer atOnce.Add(-1)
			handled.Add(1)
			if d.Deliveries > 1 {
				again.Add(1)
			}
			wait(ctx, 30*time.Millisecond)
			finished <- struct{}{}
			return subjects.Ack()
		})
	})
	receive(t, finished, 30)
	eventually(t, "queue empty", func() bool { return count(t, b, subjects.StreamPropose) == 0 })
	if handled.Load() != 30 || again.Load() != 0 || most.Load() > 2 {
		t.Errorf("%d handlings, %d again, %d at once; want 30, 0, at most 2", handled.Load(), again.Load(), most.Load())
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// A handler that takes five times the acknowledgement wait keeps its message,
// though a second hand is free to take a redelivery.
func TestHeartbeatKeepsTheMessage(t *testing.T) {
	t.Parallel()
	params := bustest.Small()
	params.AckWait = 300 * time.Millisecond
	b := bustest.NewAccount(t, params).Connect(t, bus.Options{Name: "long"})
	publishMany(t, b, 1)
	var begun atomic.Int64
	finished := make(chan struct{}, 10)
	start(t, func(ctx context.Context) error {
		return b.Consume(ctx, proposals(2), func(ctx context.Context, _ subjects.Delivery) subjects.Verdict {
			begun.Add(1)
			wait(ctx, 1500*time.Millisecond)
			finished <- struct{}{}
			return subjects.Ack()
		})
	})
	receive(t, finished, 1)
	if n := begun.Load(); n != 1 {
		t.Errorf("the message was handed out %d times", n)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	reasons := make(chan string, 10)
	advisories, err := b.Conn().Subscribe("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>", onText(reasons))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = advisories.Unsubscribe() }()
	got := make(chan subjects.Delivery, 100)
	start(t, func(ctx context.Context) error {
		return b.Consume(ctx, proposals(4), func(_ context.Context, d subjects.Delivery) subjects.Verdict {
			got <- d
			switch {
			case string(d.Data) == "park":
				return subjects.Park("malformed")
			case d.Deliveries == 1 && string(d.Data) == "panic":
				panic("a defect")
			case d.Deliveries < 3:
				return subjects.Retry(10 * time.Millisecond)
			}
			return subjects.Ack()
		})
	})
	mustPublish(t, b, proposal(t, "park"), proposal(t, "panic"), proposal(t, "retry"))
	receive(t, got, 1+3+3)
	eventually(t, "queue empty", func() bool { return count(t, b, subjects.StreamPropose) == 0 })
	if text := receive(t, reasons, 1)[0]; !contains(text, "malformed") {
		t.Errorf("advisory without the reason: %s", text)
	}
	if len(got) > 0 {
		t.Errorf("delivered more often than wanted: %v", <-got)
	}
}

// A handler that can do nothing retries; deliveries come with pauses between.
func TestRetryWithoutDelayIsNoBareNak(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	publishMany(t, b, 1)
	at := make(chan time.Time, 10)
	start(t, func(ctx context.Context) error {
		return b.Consume(ctx, proposals(1), func(_ context.Context, d subjects.Delivery) subjects.Verdict {
			at <- time.Now()
			if d.Deliveries == 1 {
				return subjects.Verdict{}
			}
			return subjects.Ack()
		})
	})
	times := receive(t, at, 2)
	if pause := times[1].Sub(times[0]); pause < 900*time.Millisecond {
		t.Errorf("retried after %v, want the default delay of a second", pause)
	}
}

func TestPauseStopsPulling(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var paused atomic.Bool
	paused.Store(true)
	config := proposals(4)
	config.Pause = paused.Load
	got := make(chan subjects.Delivery, 100)
	start(t, func(ctx context.Context) error {
		return b.Consume(ctx, config, func(_ context.Context, d subjects.Delivery) subjects.Verdict {
			got <- d
			return subjects.Ack()
		})
	})
	eventually(t, "paused", func() bool { s := b.Stats(); return len(s) == 1 && s[0].Paused })
	publishMany(t, b, 5)
	paused.Store(false)
	receive(t, got, 5)
	paused.Store(true)
	eventually(t, "paused again", func() bool { return b.Stats()[0].Paused })
	publishMany(t, b, 5)
	mustPublish(t, b) // the queue has them by now
	if len(got) != 0 {
		t.Error("pulled while paused")
	}
	paused.Store(false)
	for _, d := range receive(t, got, 5) {
		if d.Deliveries != 1 {
			t.Errorf("delivery %d: a pause must not burn deliveries", d.Deliveries)
		}
	}
}

func TestConsumeSurvivesReprovisioning(t *testing.T) {
	t.Parallel()
	account := bustest.NewAccount(t, bustest.Small())
	b := account.Connect(t, bus.Options{Name: "survivor"})
	got := make(chan subjects.Delivery, 100)
	start(t, func(ctx context.Context) error {
		return b.Consume(ctx, proposals(4), func(_ context.Context, d subjects.Delivery) subjects.Verdict {
			got <- d
			return subjects.Ack()
		})
	})
	publishMany(t, b, 3)
	receive(t, got, 3)
	js := b.JetStream()
	breaks := map[string]func(context.Context) error{
		"consumer": func(ctx context.Context) error {
			return js.DeleteConsumer(ctx, subjects.StreamPropose, subjects.DurableProposals)
		},
		"stream": func(ctx context.Context) error { return js.DeleteStream(ctx, subjects.StreamPropose) },
	}
	for name, destroy := range breaks {
		before := b.Stats()[0].Rebinds
		if err := destroy(within(t, 5*time.Second)); err != nil {
			t.Fatalf("delete %s: %v", name, err)
		}
		eventually(t, "noticed", func() bool { return b.Stats()[0].Rebinds > before })
		account.Provision(t)
		publishMany(t, b, 3)
		receive(t, got, 3)
	}
}

func TestConsumeSurvivesReconnect(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	got := make(chan subjects.Delivery, 100)
	start(t, func(ctx context.Context) error {
		return b.Consume(ctx, proposals(4), func(_ context.Context, d subjects.Delivery) subjects.Verdict {
			got <- d
			return subjects.Ack()
		})
	})
	publishMany(t, b, 3)
	receive(t, got, 3)
	if err := b.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "reconnected", func() bool { return b.Reconnects() == 1 && b.Healthy() == nil })
	publishMany(t, b, 3)
	receive(t, got, 3)
}

// The end of the context stops the pulling at once; handlers finish and settle,
// and what nobody began goes back without waiting for its clock.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	publishMany(t, b, 10)
	begun, release := make(chan struct{}, 100), make(chan struct{})
	stop := start(t, func(ctx context.Context) error {
		return b.Consume(ctx, proposals(2), func(ctx context.Context, _ subjects.Delivery) subjects.Verdict {
			begun <- struct{}{}
			<-release
			if ctx.Err() != nil {
				return subjects.Retry(0)
			}
			return subjects.Ack()
		})
	})
	receive(t, begun, 2)
	time.AfterFunc(50*time.Millisecond, func() { close(release) })
	stop()
	if err := b.Flush(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two settled", func() bool { return count(t, b, subjects.StreamPropose) == 8 })
	if n := len(begun); n != 0 {
		t.Errorf("%d more handlers began after the end", n)
	}
	got := make(chan subjects.Delivery, 100)
	start(t, func(ctx context.Context) error {
		return b.Consume(ctx, proposals(2), func(_ context.Context, d subjects.Delivery) subjects.Verdict {
			got <- d
			return subjects.Ack()
		})
	})
	receive(t, got, 8)
}

// What has come but found no slot any more goes back at the end, without waiting
// for its acknowledgement clock.
func TestUnhandledGoesBack(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	var free atomic.Int64
	free.Store(5)
	config := bus.BatchConfig{
		Stream: subjects.StreamPropose, Durable: subjects.DurableProposals,
		Slots: func() int { return int(free.Load()) },
	}
	stop := start(t, func(ctx context.Context) error {
		return b.ConsumeBatch(ctx, config, func(context.Context, []subjects.Delivery) []subjects.Verdict {
			t.Error("handled without a slot")
			return nil
		})
	})
	eventually(t, "five are asked for", func() bool {
		c, err := b.JetStream().Consumer(t.Context(), subjects.StreamPropose, subjects.DurableProposals)
		return err == nil && c.CachedInfo().NumWaiting == 1
	})
	free.Store(0)
	publishMany(t, b, 5)
	eventually(t, "five have come", func() bool { return b.Stats()[0].Messages == 5 })
	stop()
	got := make(chan subjects.Delivery, 10)
	start(t, func(ctx context.Context) error {
		return b.Consume(ctx, proposals(2), func(_ context.Context, d subjects.Delivery) subjects.Verdict {
			got <- d
			return subjects.Ack()
		})
	})
	receive(t, got, 5)
}

func TestDrainTimeoutEndsHandlers(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	publishMany(t, b, 1)
	config := proposals(1)
	config.DrainTimeout = 50 * time.Millisecond
	begun := make(chan struct{}, 1)
	stop := start(t, func(ctx context.Context) error {
		return b.Consume(ctx, config, func(ctx context.Context, _ subjects.Delivery) subjects.Verdict {
			begun <- struct{}{}
			<-ctx.Done()
			return subjects.Retry(time.Second)
		})
	})
	receive(t, begun, 1)
	stop()
}

func TestOneConsumerPerDurable(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	ack := func(context.Context, subjects.Delivery) subjects.Verdict { return subjects.Ack() }
	start(t, func(ctx context.Context) error { return b.Consume(ctx, proposals(1), ack) })
	eventually(t, "bound", func() bool { s := b.Stats(); return len(s) == 1 && s[0].Bound })
	if err := b.Consume(t.Context(), proposals(1), ack); err == nil {
		t.Error("the same durable was consumed twice on one connection")
	}
	if err := b.Consume(t.Context(), bus.ConsumerConfig{}, ack); err == nil {
		t.Error("consumed without a stream")
	}
	if err := b.ConsumeBatch(t.Context(), bus.BatchConfig{Stream: "s", Durable: "d"}, nil); err == nil {
		t.Error("consumed a batch without slots")
	}
}

func TestConsumeBatch(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	subject, err := subjects.Execute("acme", tool.InProcess)
	if err != nil {
		t.Fatal(err)
	}
	var pubs []subjects.Publication
	for range 60 {
		body := subjects.AppendHints(nil, []subjects.Hint{subjects.HintCall(tool.NewID())})
		pubs = append(pubs, subjects.Publication{Stream: subjects.StreamExecute, Subject: subject, Data: body})
	}
	mustPublish(t, b, pubs...)
	var free atomic.Int64
	wake := make(chan struct{}, 1)
	sizes := make(chan int, 100)
	config := bus.BatchConfig{
		Stream: subjects.StreamExecute, Durable: subjects.DurableExecutor(tool.InProcess),
		Slots: func() int { return int(free.Load()) }, Wake: wake, MaxWait: time.Hour,
	}
	start(t, func(ctx context.Context) error {
		return b.ConsumeBatch(ctx, config, func(_ context.Context, d []subjects.Delivery) []subjects.Verdict {
			free.Add(-int64(len(d)))
			sizes <- len(d)
			verdicts := make([]subjects.Verdict, len(d))
			for i := range verdicts {
				verdicts[i] = subjects.Ack()
			}
			return verdicts
		})
	})
	eventually(t, "bound", func() bool { s := b.Stats(); return len(s) == 1 && s[0].Bound })
	for total, round := 0, 0; total < 60; round++ {
		free.Store(20)
		wake <- struct{}{}
		for taken := 0; taken < 20; {
			n := receive(t, sizes, 1)[0]
			taken, total = taken+n, total+n
		}
		if left := free.Load(); left != 0 {
			t.Fatalf("round %d: %d slots left, more or less than 20 were taken", round, left)
		}
	}
	eventually(t, "queue empty", func() bool { return count(t, b, subjects.StreamExecute) == 0 })
	if len(sizes) > 0 {
		t.Error("more messages than there were")
	}
}

func TestMissingVerdictsAreRetries(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	publishMany(t, b, 1)
	got := make(chan int, 10)
	config := bus.BatchConfig{Stream: subjects.StreamPropose, Durable: subjects.DurableProposals, Slots: func() int { return 5 }}
	start(t, func(ctx context.Context) error {
		return b.ConsumeBatch(ctx, config, func(_ context.Context, d []subjects.Delivery) []subjects.Verdict {
			got <- d[0].Deliveries
			if d[0].Deliveries == 1 {
				return nil
			}
			return []subjects.Verdict{subjects.Ack()}
		})
	})
	if n := receive(t, got, 2); n[1] != 2 {
		t.Errorf("deliveries %v", n)
	}
}
