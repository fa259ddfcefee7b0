package telemetry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/services/telemetry"
	"github.com/toolbus/toolbus/subjects"
)

// attach serves one client inside a bubble; the channel is closed when it was
// let go.
func (w *world) attach(ctx context.Context, out http.ResponseWriter, last string) <-chan struct{} {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/events", nil)
	r.Header.Set("Authorization", "Bearer "+allToken)
	r.Header.Set("Last-Event-ID", last)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		w.Handler().ServeHTTP(out, r)
	}()
	return gone
}

// bubble runs a test with the shared reader under a fake clock.
func bubble(t *testing.T, change func(*telemetry.Options), test func(ctx context.Context, t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, change)
		ctx, stop := context.WithCancel(t.Context())
		followed := make(chan struct{})
		go func() {
			defer close(followed)
			w.Follow(ctx)
		}()
		synctest.Wait()
		test(ctx, t, w)
		stop()
		<-followed
	})
}

// datas gives the bodies in a piece of an event stream.
func datas(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			out = append(out, strings.TrimSuffix(data, "\n"))
		}
	}
	return out
}

func lastID(t *testing.T, text string) string {
	t.Helper()
	ids := regexp.MustCompile(`(?m)^id: (.*)$`).FindAllStringSubmatch(text, -1)
	if len(ids) == 0 {
		t.Fatal("no position was sent")
	}
	return ids[len(ids)-1][1]
}

func TestKeepAlive(t *testing.T) {
	t.Parallel()
	bubble(t, nil, func(ctx context.Context, t *testing.T, w *world) {
		t.Helper()
		t.Helper()
		ctx, leave := context.WithCancel(ctx)
		out := newRecorder(nil)
		gone := w.attach(ctx, out, "")
		synctest.Wait()
		if got := out.text(); got != "retry: 2000\nid: one.0\n\n" {
			t.Errorf("at first: %q", got)
		}
		elapse(15 * time.Second)
		synctest.Wait()
		if got := out.text(); got != ": keep-alive\nid: one.0\n\n" {
			t.Errorf("after 15 seconds of silence: %q", got)
		}
		d := other(t, "acme", subjects.EventServerPinned)
		elapse(10 * time.Second)
		w.stream.publish(d)
		synctest.Wait()
		if got := out.text(); got != "id: one.1\nevent: mcp.server.pinned\ndata: "+string(d.Data)+"\n\n" {
			t.Errorf("event: %q", got)
		}
		elapse(14 * time.Second)
		synctest.Wait()
		if got := out.text(); got != "" {
			t.Errorf("before 15 seconds of silence: %q", got)
		}
		leave()
		<-gone
	})
}

// A filter that lets nothing through must not leave the client with a position
// from long ago, nor without a sign of life.
func TestKeepAliveMovesOn(t *testing.T) {
	t.Parallel()
	bubble(t, nil, func(ctx context.Context, t *testing.T, w *world) {
		t.Helper()
		ctx, leave := context.WithCancel(ctx)
		out := newRecorder(nil)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/events?event=run.failed", nil)
		r.Header.Set("Authorization", "Bearer "+acmeToken)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			w.Handler().ServeHTTP(out, r)
		}()
		synctest.Wait()
		out.text()
		for range 16 {
			elapse(time.Second)
			w.stream.publish(other(t, "acme", subjects.EventServerPinned))
			synctest.Wait()
		}
		if got := out.text(); got != ": keep-alive\nid: one.15\n\n" && got != ": keep-alive\nid: one.14\n\n" {
			t.Errorf("after 16 events that do not match: %q", got)
		}
		leave()
		<-gone
	})
}

func TestSlowClientIsLetGo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ writes, later int }{
		"reads nothing": {1, 0}, "reads a little": {3, 0}, "is overtaken": {3, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(o *telemetry.Options) { o.History = 400 }, func(ctx context.Context, t *testing.T, w *world) {
				t.Helper()
				ctx, leave := context.WithCancel(ctx)
				gate := make(chan struct{}, 100)
				slow, fast := newRecorder(gate), newRecorder(nil)
				for range test.writes {
					gate <- struct{}{}
				}
				slowGone, fastGone := w.attach(ctx, slow, ""), w.attach(ctx, fast, "")
				synctest.Wait()
				var all []string
				for range 1000 {
					all = append(all, numbered(t, w, 1)...)
					synctest.Wait()
				}
				if diff := cmp.Diff(all, datas(fast.text())); diff != "" {
					t.Errorf("the other client (-want +got):\n%s", diff)
				}
				if kept := w.Kept(); kept > 400 {
					t.Errorf("%d events are kept, want at most 400", kept)
				}
				for range test.later {
					gate <- struct{}{}
				}
				<-slowGone
				seen := slow.text()
				resumed := newRecorder(nil)
				resumedGone := w.attach(ctx, resumed, lastID(t, seen))
				synctest.Wait()
				if diff := cmp.Diff(all, slices.Concat(datas(seen), datas(resumed.text()))); diff != "" {
					t.Errorf("what the slow client saw in the end (-want +got):\n%s", diff)
				}
				leave()
				<-fastGone
				<-resumedGone
				if got := scrape(t, w.metrics)["toolbus_event_clients_dropped_total"]; got != 1 {
					t.Errorf("%v clients were dropped, want 1", got)
				}
			})
		})
	}
}

func TestTableThatIsAwayCostsNoEvent(t *testing.T) {
	t.Parallel()
	bubble(t, nil, func(ctx context.Context, t *testing.T, w *world) {
		t.Helper()
		ctx, leave := context.WithCancel(ctx)
		out := newRecorder(nil)
		gone := w.attach(ctx, out, "")
		synctest.Wait()
		c := w.tables.newCall("acme", succeeded(), lifetime()...)
		w.tables.breakDown(true)
		w.stream.publish(c.message(t, 1), c.message(t, 3))
		elapse(10 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{c.body(t, 1)}, datas(out.text())); diff != "" {
			t.Errorf("while the table is away (-want +got):\n%s", diff)
		}
		w.tables.breakDown(false)
		elapse(2 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{c.body(t, 2), c.body(t, 3)}, datas(out.text())); diff != "" {
			t.Errorf("when it is back (-want +got):\n%s", diff)
		}
		// One that stays away costs order, and still no event.
		w.tables.breakDown(true)
		d := w.tables.newCall("acme", succeeded(), lifetime()...)
		w.stream.publish(d.message(t, 3), d.message(t, 4), d.message(t, 2), d.message(t, 1), d.message(t, 2))
		elapse(31 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{d.body(t, 3), d.body(t, 4), d.body(t, 2), d.body(t, 1)}, datas(out.text())); diff != "" {
			t.Errorf("while it stays away (-want +got):\n%s", diff)
		}
		leave()
		<-gone
	})
}

func TestReaderThatStallsTurnsReadinessRed(t *testing.T) {
	t.Parallel()
	bubble(t, nil, func(ctx context.Context, t *testing.T, w *world) {
		t.Helper()
		ctx, leave := context.WithCancel(ctx)
		done := make(chan struct{}, 2)
		for _, run := range []func(){func() { _ = w.checks.Run(ctx) }, func() { w.Sample(ctx) }} {
			go func() {
				run()
				done <- struct{}{}
			}()
		}
		failing := func(after time.Duration) []string {
			elapse(after)
			synctest.Wait()
			var names []string
			for _, f := range w.checks.Failing() {
				names = append(names, f.Name)
			}
			return names
		}
		if got := failing(time.Hour); got != nil {
			t.Errorf("idle for an hour: %v fail", got)
		}
		w.stream.stall(true)
		numbered(t, w, 1)
		if got := failing(20 * time.Second); got != nil {
			t.Errorf("after 20 seconds: %v fail", got)
		}
		if got := failing(20 * time.Second); !slices.Equal(got, []string{"telemetry.events"}) {
			t.Errorf("after 40 seconds without progress: %v fail, want the reader", got)
		}
		w.tables.breakDown(true)
		if got := failing(20 * time.Second); !slices.Equal(got, []string{"telemetry.events", "telemetry.tables"}) {
			t.Errorf("without the tables: %v fail", got)
		}
		leave()
		<-done
		<-done
	})
}

func TestGaugesOfTheTables(t *testing.T) {
	t.Parallel()
	bubble(t, nil, func(ctx context.Context, t *testing.T, w *world) {
		t.Helper()
		ctx, leave := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Sample(ctx)
		}()
		synctest.Wait()
		elapse(7 * time.Second)
		got := scrape(t, w.metrics)
		for series, want := range map[string]float64{
			`toolbus_open_calls_oldest_seconds{status="running"}`:              90,
			`toolbus_open_calls_oldest_seconds{status="waiting_for_approval"}`: 0,
			`toolbus_open_calls_oldest_seconds{status="authorized"}`:           0,
			`toolbus_outbox_oldest_seconds`:                                    3,
			`toolbus_outbox_entries`:                                           4,
			`toolbus_approvals_pending`:                                        2,
			`toolbus_approvals_oldest_seconds`:                                 60,
			`toolbus_dead_letters`:                                             5,
			`toolbus_backlog_age_seconds`:                                      7,
		} {
			if value, ok := got[series]; !ok || value != want {
				t.Errorf("%s is %v (there: %t), want %v", series, value, ok, want)
			}
		}
		leave()
		<-done
	})
}

func TestReaderTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.stream.update(func() { w.stream.away = true })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Follow(ctx)
		}()
		elapse(time.Minute)
		refused := newRecorder(nil)
		<-w.attach(ctx, refused, "")
		if refused.status != http.StatusServiceUnavailable || !strings.Contains(refused.text(), "not_ready") {
			t.Errorf("before the stream was read: status %d", refused.status)
		}
		w.stream.update(func() { w.stream.away = false })
		elapse(10 * time.Second)
		out := newRecorder(nil)
		gone := w.attach(ctx, out, "")
		synctest.Wait()
		bodies := numbered(t, w, 3)
		synctest.Wait()
		if diff := cmp.Diff(bodies, datas(out.text())); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		stop()
		<-gone
		<-done
	})
}

// A client that joins at the oldest event that is kept could be overtaken
// before it has read anything.
func TestResumeIsNotOvertaken(t *testing.T) {
	t.Parallel()
	bubble(t, func(o *telemetry.Options) { o.History = 8 }, func(ctx context.Context, t *testing.T, w *world) {
		t.Helper()
		bodies := numbered(t, w, 100)
		synctest.Wait()
		ctx, leave := context.WithCancel(ctx)
		gate := make(chan struct{}, 100)
		out := newRecorder(gate)
		gone := w.attach(ctx, out, "one.92")
		synctest.Wait()
		bodies = append(bodies, numbered(t, w, 3)...)
		synctest.Wait()
		for range cap(gate) {
			gate <- struct{}{}
		}
		synctest.Wait()
		if diff := cmp.Diff(bodies[92:], datas(out.text())); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		leave()
		<-gone
	})
}

// Clients that leave while they read old events make room for others.
func TestLeavingTheBacklogMakesRoom(t *testing.T) {
	t.Parallel()
	bubble(t, func(o *telemetry.Options) { o.History = 8 }, func(ctx context.Context, t *testing.T, w *world) {
		t.Helper()
		numbered(t, w, 100)
		synctest.Wait()
		for range 40 {
			gate := make(chan struct{}, 1)
			gate <- struct{}{}
			out := newRecorder(gate)
			<-w.attach(ctx, out, "one.1")
			if out.status != http.StatusOK {
				t.Fatalf("status %d, want room", out.status)
			}
		}
	})
}
