package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/test/systemtest"
	"github.com/toolbus/toolbus/tool"
)

// TestTelemetrySeesACall follows one call over HTTP: readiness, the events of
// the call in order, and the metrics of the specification.
func TestTelemetrySeesACall(t *testing.T) {
	t.Parallel()
	s := systemtest.New(t)
	s.Config.HTTP.Address = "127.0.0.1:0"
	n := s.Start(t, func(o *app.Options) { o.DevToken = tool.NewSecret("sesame") }, app.Services()...)
	base := "http://" + n.HTTPAddress()
	systemtest.Await(t, "readiness", func() bool { status, _ := get(t, base+"/readyz"); return status == http.StatusOK })

	r := s.OpenRuntime(t, "acme", nil)
	events := follow(t, base+"/v1/events?tenant=acme&run="+r.Run.String())
	r.Propose(t, 1, systemtest.Call("c1", "demo.echo", `{"text":"hi"}`))
	r.Outcome(t, 1, "c1")
	for i, want := range []string{"tool.call.proposed", "tool.call.authorized", "tool.call.started", "tool.call.completed"} {
		select {
		case e := <-events:
			if e.Event != want || e.Seq != i+1 {
				t.Fatalf("event %d is %s with seq %d, want %s", i+1, e.Event, e.Seq, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("no event %s", want)
		}
	}
	systemtest.Await(t, "the call in the metrics", func() bool {
		_, body := get(t, base+"/metrics")
		return strings.Contains(body, `tool_calls_total{outcome_status="succeeded",tool_name="demo.echo",tool_source="builtin"} 1`)
	})
	if status, _ := get(t, base+"/v1/events"); status != http.StatusUnauthorized {
		t.Errorf("events without a token: %d", status)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

type seen struct {
	Event string `json:"event"`
	Seq   int    `json:"seq"`
}

// follow reads server-sent events until the test ends.
func follow(t *testing.T, url string) <-chan seen {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer sesame")
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("follow: %v %v", err, response)
	}
	out, done := make(chan seen, 64), make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var e seen
			if json.Unmarshal([]byte(data), &e) == nil && e.Event != "" {
				out <- e
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		response.Body.Close()
		<-done
	})
	return out
}
