package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/toolbus/toolbus/internal/observe"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/services/telemetry"
	"github.com/toolbus/toolbus/subjects"
)

func TestEventsOfACallComeInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil).start(t)
	c := w.tables.newCall("acme", succeeded(), lifetime()...)
	s := w.follow(t, acmeToken, "", "")
	// 2 comes by the relay after 3, and 4 comes twice.
	for _, seq := range []int{1, 3, 2, 4, 4} {
		w.stream.publish(c.message(t, seq))
	}
	end := other(t, "acme", subjects.EventServerPinned)
	w.stream.publish(end)
	s.expect(c.body(t, 1), c.body(t, 2), c.body(t, 3), c.body(t, 4), string(end.Data))
}

func TestATenantSeesNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil).start(t)
	ours, theirs := w.tables.newCall("acme", succeeded(), lifetime()...), w.tables.newCall("globex", succeeded(), lifetime()...)
	acme, all := w.follow(t, acmeToken, "", ""), w.follow(t, allToken, "", "")
	theirsOnly := w.follow(t, allToken, "tenant=globex", "")
	// What claims another tenant than its subject is no event of anybody.
	forged := theirs.message(t, 1)
	forged.Subject = strings.Replace(forged.Subject, ".globex.", ".acme.", 1)
	w.stream.publish(forged, theirs.message(t, 1), ours.message(t, 1))
	acme.expect(ours.body(t, 1))
	all.expect(theirs.body(t, 1), ours.body(t, 1))
	w.stream.publish(theirs.message(t, 2))
	theirsOnly.expect(theirs.body(t, 1), theirs.body(t, 2))
}

func TestFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil).start(t)
	one, two := w.tables.newCall("acme", succeeded(), lifetime()...), w.tables.newCall("acme", succeeded(), lifetime()...)
	run := w.follow(t, acmeToken, "run="+one.row.RunID.String(), "")
	exact := w.follow(t, acmeToken, "event=tool.call.started&event=mcp.server.pinned", "")
	prefix := w.follow(t, acmeToken, "event=tool.call.*", "")
	server := other(t, "acme", subjects.EventServerPinned)
	w.stream.publish(two.message(t, 1), one.message(t, 1), server, one.message(t, 2), one.message(t, 3))
	run.expect(one.body(t, 1), one.body(t, 2), one.body(t, 3))
	exact.expect(string(server.Data), one.body(t, 3))
	prefix.expect(two.body(t, 1), one.body(t, 1), one.body(t, 2), one.body(t, 3))
}

func TestResumeFromMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil).start(t)
	c := w.tables.newCall("acme", succeeded(), lifetime()...)
	s := w.follow(t, acmeToken, "", "")
	w.stream.publish(c.message(t, 1), c.message(t, 3))
	s.expect(c.body(t, 1))
	afterFirst := s.last
	s.expect(c.body(t, 2))
	afterFilled := s.last
	s.expect(c.body(t, 3))
	afterThird := s.last
	w.stream.publish(c.message(t, 2), c.message(t, 4))
	s.expect(c.body(t, 4))

	w.follow(t, acmeToken, "", afterFirst).expect(c.body(t, 2), c.body(t, 3), c.body(t, 4))
	// A filled event has no position of its own: it comes again rather than not.
	w.follow(t, acmeToken, "", afterFilled).expect(c.body(t, 2), c.body(t, 3), c.body(t, 4))
	w.follow(t, acmeToken, "", afterThird).expect(c.body(t, 4))
	if got := w.stream.readings(); len(got) != 1 {
		t.Errorf("the stream was read %d times, want once for all", len(got))
	}
}

// numbered publishes n events that tell themselves apart.
func numbered(t *testing.T, w *world, n int) []string {
	t.Helper()
	bodies := make([]string, n)
	for i := range bodies {
		d := other(t, "acme", subjects.EventServerPinned)
		bodies[i] = string(d.Data)
		w.stream.publish(d)
	}
	return bodies
}

func TestResumeFromTheStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *telemetry.Options) { o.History = 8 })
	bodies := numbered(t, w, 100)
	w.start(t)
	for _, position := range []int{0, 1, 50, 91, 92, 93, 99, 100} {
		s := w.follow(t, acmeToken, "", fmt.Sprintf("one.%d", position))
		s.expect(bodies[position:]...)
		bodies = append(bodies, numbered(t, w, 1)...)
		s.expect(bodies[len(bodies)-1])
	}
}

func TestBacklogIsInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *telemetry.Options) { o.History = 2 })
	c := w.tables.newCall("acme", succeeded(), lifetime()...)
	hidden := w.tables.newCall("globex", succeeded(), lifetime()...)
	w.stream.publish(c.message(t, 1), hidden.message(t, 1), c.message(t, 3), hidden.message(t, 3), c.message(t, 2))
	tail := numbered(t, w, 10)
	w.start(t)
	before := w.tables.fillsSoFar()
	w.follow(t, acmeToken, "", "one.1").expect(append([]string{c.body(t, 2), c.body(t, 3)}, tail...)...)
	if got := w.tables.fillsSoFar() - before; got != 1 {
		t.Errorf("%d reads of the table, want none for the other tenant", got)
	}
	// The late copy of what came with 3 is not sent to one who has seen 3.
	w.follow(t, acmeToken, "", "one.3").expect(tail...)
	w.follow(t, acmeToken, "event=tool.call.authorized&event=mcp.*", "one.2").expect(append([]string{c.body(t, 2)}, tail...)...)
}

func TestReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *telemetry.Options) { o.History = 2 })
	numbered(t, w, 20)
	w.stream.expire(10)
	w.start(t)
	for last, reason := range map[string]string{
		"other.3": "unknown_incarnation", "nonsense": "unknown_incarnation", "one.-1": "unknown_incarnation", "one.9999": "unknown_incarnation",
		"one.3": "expired",
	} {
		s := w.follow(t, acmeToken, "", last)
		if m := s.next(); m.Event != "reset" || m.ID != "one.20" || m.Data != `{"v":1,"event":"reset","reason":"`+reason+`"}` {
			t.Errorf("after %q: %+v, want reset: %s", last, m, reason)
		}
	}
}

func TestEventsThatExpireWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *telemetry.Options) { o.History = 2 })
	numbered(t, w, 20)
	w.start(t)
	w.stream.update(func() {
		w.stream.beforeRead = func() {
			w.stream.update(func() { w.stream.beforeRead = nil })
			w.stream.expire(10)
		}
	})
	if m := w.follow(t, acmeToken, "", "one.5").next(); m.Event != "reset" || !strings.Contains(m.Data, `"reason":"expired"`) {
		t.Errorf("first message after the loss: %+v", m)
	}
}

// What was read and is no event takes part in the positions all the same.
func TestResumeBeforeTheHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *telemetry.Options) { o.History = 8 })
	bodies := numbered(t, w, 50)
	for range 8 {
		w.stream.publish(subjects.Delivery{Subject: "toolbus.event.acme", Data: []byte("{}")})
	}
	w.start(t)
	s := w.follow(t, acmeToken, "", "one.49")
	s.expect(append(bodies[49:], numbered(t, w, 1)...)...)
}

// A client may come from an instance that has read further than this one.
func TestResumeAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	numbered(t, w, 3)
	w.start(t)
	w.stream.stall(true)
	numbered(t, w, 2)
	s := w.follow(t, acmeToken, "", "one.5")
	bodies := numbered(t, w, 1)
	w.stream.stall(false)
	s.expect(bodies...)
}

func TestStopLetsClientsGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-w.Ready()
	s := w.follow(t, acmeToken, "", "")
	stop()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	// An answer that was cut, not ended, would be an unexpected end.
	if _, err := s.block(); !errors.Is(err, io.EOF) {
		t.Errorf("the client's answer ends with %v", err)
	}
}

func TestStreamCreatedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	numbered(t, w, 3)
	w.start(t)
	c := w.tables.newCall("acme", succeeded(), lifetime()...)
	s := w.follow(t, acmeToken, "", "")
	w.stream.publish(c.message(t, 1))
	s.expect(c.body(t, 1))
	w.stream.recreate("two")
	w.stream.publish(c.message(t, 1), c.message(t, 2))
	if m := s.next(); m.Event != "reset" || m.ID != "two.0" {
		t.Fatalf("first message of the new stream: %+v", m)
	}
	// 1 was sent on this connection already: that it is stored again changes nothing.
	s.expect(c.body(t, 2))
	if s.last != "two.2" {
		t.Errorf("last event id %q, want two.2", s.last)
	}
}

func TestWhatIsNoEventIsSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil).start(t)
	c := w.tables.newCall("acme", succeeded(), lifetime()...)
	s := w.follow(t, acmeToken, "", "")
	broken, spaced := c.message(t, 1), c.message(t, 1)
	broken.Data = []byte("{\n\ndata: forged")
	spaced.Data = []byte(strings.Replace(string(spaced.Data), ",", ",\r\n\n", 1))
	w.stream.publish(broken, subjects.Delivery{Subject: "toolbus.event.acme", Data: []byte("{}")}, spaced)
	s.expect(c.body(t, 1))
	if got := scrape(t, w.metrics)["toolbus_events_invalid_total"]; got != 2 {
		t.Errorf("%v invalid messages counted, want 2", got)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil).start(t)
	bearer := "Bearer " + acmeToken
	for name, test := range map[string]struct {
		path, authorization string
		status              int
		code                string
	}{
		"no token":         {"/v1/events", "", http.StatusUnauthorized, "unauthenticated"},
		"wrong token":      {"/v1/events", bearer + "x", http.StatusUnauthorized, "unauthenticated"},
		"prefix of one":    {"/v1/events", bearer[:len(bearer)-1], http.StatusUnauthorized, "unauthenticated"},
		"another scheme":   {"/v1/events", "Basic " + acmeToken, http.StatusUnauthorized, "unauthenticated"},
		"foreign tenant":   {"/v1/events?tenant=globex", bearer, http.StatusForbidden, "tenant_forbidden"},
		"all tenants":      {"/v1/events?tenant=*", bearer, http.StatusBadRequest, "invalid_parameter"},
		"run is no id":     {"/v1/events?run=1", bearer, http.StatusBadRequest, "invalid_parameter"},
		"event is no name": {"/v1/events?event=*", bearer, http.StatusBadRequest, "invalid_parameter"},
		"inner wildcard":   {"/v1/events?event=tool.*.started", bearer, http.StatusBadRequest, "invalid_parameter"},
		"unknown filter":   {"/v1/events?tool=x", bearer, http.StatusBadRequest, "invalid_parameter"},
		"unknown path":     {"/v2", bearer, http.StatusNotFound, "not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response := w.get(t, test.path, "Authorization", test.authorization)
			if got := body(t, response); response.StatusCode != test.status || !strings.HasPrefix(got, `{"code":"`+test.code+`",`) {
				t.Errorf("answer %d %s, want %d %s", response.StatusCode, got, test.status, test.code)
			}
			for _, header := range []string{"X-Content-Type-Options", "Content-Security-Policy", "Cache-Control"} {
				if response.Header.Get(header) == "" {
					t.Errorf("no %s", header)
				}
			}
			if response.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("other origins are allowed")
			}
		})
	}
}

func TestBoundOnClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *telemetry.Options) { o.Clients = 1 }).start(t)
	w.follow(t, acmeToken, "", "")
	response := w.get(t, "/v1/events", "Authorization", "Bearer "+acmeToken)
	if got := body(t, response); response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(got, "overloaded") {
		t.Errorf("answer %d %s", response.StatusCode, got)
	}
}

func TestWithoutTokensThereIsNoAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *telemetry.Options) { o.Tokens = nil }).start(t)
	for path, status := range map[string]int{"/v1/events": http.StatusNotFound, "/healthz": http.StatusOK, "/metrics": http.StatusOK} {
		if got := w.get(t, path, "Authorization", "Bearer "+acmeToken).StatusCode; got != status {
			t.Errorf("%s answers %d, want %d", path, got, status)
		}
	}
}

func TestMetricsOfCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	old := w.tables.newCall("acme", succeeded(), lifetime()...)
	for seq := range 4 {
		w.stream.publish(old.message(t, seq+1))
	}
	w.start(t)
	s := w.follow(t, allToken, "", "")
	end := func(tenant, name string, end pipeline.Settlement) *call {
		return w.tables.newCall(tenant, end, pipeline.EventProposed, name)
	}
	unknown := end("acme", pipeline.EventDenied, pipeline.Settlement{Outcome: "denied", Reason: "policy.matrix.unknown_tool"})
	unknown.row.ToolName, unknown.row.ToolVersion = "made_up.by_a_model", "-"
	calls := []*call{
		unknown,
		end("acme", pipeline.EventCompleted, pipeline.Settlement{Outcome: "succeeded", OutputBytes: 2048, Truncated: true}),
		end("globex", pipeline.EventFailed, pipeline.Settlement{Outcome: "failed", Reason: "tool.timeout"}),
		end("acme", pipeline.EventFailed, pipeline.Settlement{Outcome: "failed", Reason: "tool.run_cancelled"}),
		end("acme", pipeline.EventFailed, pipeline.Settlement{Outcome: "failed", Reason: "tool.upstream_error.rate_limited"}),
		end("acme", pipeline.EventFailed, pipeline.Settlement{Outcome: "unavailable", Reason: "tool.withdrawn"}),
		end("acme", pipeline.EventUncertain, pipeline.Settlement{Outcome: "uncertain", Reason: "tool.outcome_unknown"}),
	}
	for i, c := range calls {
		if i == 1 { // only the table has its first event when the second comes
			w.stream.publish(c.message(t, 2), c.message(t, 1), c.message(t, 2))
			s.expect(c.body(t, 1), c.body(t, 2))
			continue
		}
		w.stream.publish(c.message(t, 1), c.message(t, 2), c.message(t, 2))
		s.expect(c.body(t, 1), c.body(t, 2))
	}
	got := scrape(t, w.metrics)
	const known = `tool_name="workspace.write_text",tool_source="builtin"`
	for series, want := range map[string]float64{
		`tool_calls_total{outcome_status="succeeded",` + known + `}`:                          1,
		`tool_calls_total{outcome_status="failed",` + known + `}`:                             3,
		`tool_calls_total{outcome_status="denied",tool_name="unknown",tool_source="builtin"}`: 1,
		`tool_failures_total{reason_code="tool.upstream_error.rate_limited",` + known + `}`:   1,
		`tool_failures_total{reason_code="tool.withdrawn",` + known + `}`:                     1,
		`tool_uncertain_total{` + known + `}`:                                                 1,
		`tool_uncertain_total{tool_name="unknown",tool_source="builtin"}`:                     0,
		`tool_truncations_total{` + known + `}`:                                               1,
		`tool_output_bytes_sum{` + known + `}`:                                                2048,
		`tool_duration_seconds_count{` + known + `}`:                                          6,
		`tool_duration_seconds_sum{` + known + `}`:                                            12,
		`toolbus_calls_ended_total{end="succeeded"}`:                                          1,
		`toolbus_calls_ended_total{end="failed"}`:                                             1,
		`toolbus_calls_ended_total{end="cancelled"}`:                                          1,
		`toolbus_calls_ended_total{end="timed_out"}`:                                          1,
		`toolbus_calls_ended_total{end="uncertain"}`:                                          1,
		`toolbus_calls_ended_total{end="unavailable"}`:                                        1,
		`toolbus_calls_ended_total{end="denied"}`:                                             1,
		`toolbus_event_gaps_total{result="filled"}`:                                           1,
	} {
		if value, ok := got[series]; !ok || value != want {
			t.Errorf("%s is %v (there: %t), want %v", series, value, ok, want)
		}
	}
	for series := range got {
		if strings.Contains(series, "acme") || strings.Contains(series, "made_up") {
			t.Errorf("series %s shows a tenant or an unknown name", series)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	if err := w.checks.Add("bus", func(context.Context) error { return errAway }); err != nil {
		t.Fatal(err)
	}
	w.start(t)
	if got := w.get(t, "/healthz"); got.StatusCode != http.StatusOK {
		t.Errorf("liveness: %s", got.Status)
	}
	response := w.get(t, "/readyz")
	if got := body(t, response); response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(got, `{"name":"bus","since":"2`) {
		t.Errorf("readiness: %d %s", response.StatusCode, got)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	good := newWorld(t, nil)
	for name, change := range map[string]func(*telemetry.Options){
		"no reader":      func(o *telemetry.Options) { o.Events = nil },
		"no tables":      func(o *telemetry.Options) { o.Tables = nil },
		"no port":        func(o *telemetry.Options) { o.Address = "localhost" },
		"negative":       func(o *telemetry.Options) { o.History = -1 },
		"empty token":    func(o *telemetry.Options) { o.Tokens[0].Value = o.Tokens[1].Value; o.Tokens[1].Value = zeroSecret },
		"equal tokens":   func(o *telemetry.Options) { o.Tokens[0].Value = o.Tokens[1].Value },
		"no role":        func(o *telemetry.Options) { o.Tokens[0].Role = "owner" },
		"no tenants":     func(o *telemetry.Options) { o.Tokens[0].Tenants = nil },
		"tenant pattern": func(o *telemetry.Options) { o.Tokens[0].Tenants = []string{"ac*"} },
	} {
		o := telemetry.Options{
			Address: "127.0.0.1:0", Events: good.stream, Tables: good.tables, Metrics: good.metrics, Checks: observe.NewChecks(nil),
			Tokens: twoTokens(),
		}
		change(&o)
		if _, err := telemetry.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
