package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/subjects"
)

func BenchmarkPublish(b *testing.B) {
	const batch = 64
	bb := bustest.New(b)
	body := strings.Repeat("x", 600)
	pubs := make([]subjects.Publication, batch)
	for i := range pubs {
		pubs[i] = outcome(b, "", body)
	}
	ids := 0
	b.ReportAllocs()
	inFlight := make(chan struct{}, 64)
	for b.Loop() {
		next := make([]subjects.Publication, batch)
		copy(next, pubs)
		for i := range next {
			ids++
			next[i].ID = fmt.Sprintf("outcome:%d", ids)
		}
		inFlight <- struct{}{}
		bb.PublishAsync(next, func(errs []error) {
			if err := errors.Join(errs...); err != nil {
				b.Error(err)
			}
			<-inFlight
		})
	}
	for range cap(inFlight) {
		inFlight <- struct{}{}
	}
	b.ReportMetric(float64(ids)/b.Elapsed().Seconds(), "msgs/s")
}

func BenchmarkConsume(b *testing.B) {
	const n = 20000
	for b.Loop() {
		bb := bustest.New(b)
		pubs := make([]subjects.Publication, 500)
		for i := range pubs {
			pubs[i] = proposal(b, "{}")
		}
		for range n / len(pubs) {
			if err := errors.Join(bb.Publish(b.Context(), pubs)...); err != nil {
				b.Fatal(err)
			}
		}
		var handled atomic.Int64
		all := make(chan struct{})
		ctx, cancel := context.WithCancel(b.Context())
		begin := time.Now()
		go func() {
			<-all
			cancel()
		}()
		err := bb.Consume(ctx, proposals(256), func(context.Context, subjects.Delivery) subjects.Verdict {
			if handled.Add(1) == n {
				b.ReportMetric(n/time.Since(begin).Seconds(), "msgs/s")
				close(all)
			}
			return subjects.Ack()
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// One message in flight: published, delivered, handled.
func BenchmarkRoundTrip(b *testing.B) {
	bb := bustest.New(b)
	got := make(chan struct{}, 1)
	start(b, func(ctx context.Context) error {
		return bb.Consume(ctx, proposals(32), func(context.Context, subjects.Delivery) subjects.Verdict {
			got <- struct{}{}
			return subjects.Ack()
		})
	})
	pub := []subjects.Publication{proposal(b, "{}")}
	for b.Loop() {
		if err := bb.Publish(b.Context(), pub)[0]; err != nil {
			b.Fatal(err)
		}
		<-got
	}
}
