package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/builtin"
	"github.com/toolbus/toolbus/tool"
)

func TestDemoEcho(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	r, err := b.execute(t, "demo.echo", `{"text":"hello","data":{"a":[1,null]}}`)
	if err != nil || text(r) != "hello" || string(r.Structured) != `{"a":[1,null]}` {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := b.execute(t, "demo.echo", `{}`); err != nil || !r.OK || r.Structured != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestDemoSlow(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	slow := b.tool(t, "demo.slow")
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r, err := slow.Execute(t.Context(), json.RawMessage(`{"seconds":90.5}`), b.exec)
		if err != nil || !r.OK || time.Since(begin) != 90*time.Second+500*time.Millisecond {
			t.Errorf("%+v, %v after %s", r, err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		begin = time.Now()
		_, err = slow.Execute(ctx, json.RawMessage(`{"seconds":600}`), b.exec)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 7*time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

func TestDemoFlaky(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	for attempt := 1; attempt <= 4; attempt++ {
		b.exec.AttemptNumber = attempt
		r, err := b.execute(t, "demo.flaky", `{"times":2}`)
		if err != nil || r.OK != (attempt > 2) {
			t.Errorf("attempt %d: %+v, %v", attempt, r, err)
		}
		if !r.OK && (!r.Failure.Retryable || r.Failure.Kind != tool.FailUpstreamError) {
			t.Errorf("attempt %d: %+v", attempt, r.Failure)
		}
	}
}

func TestDemoLargeOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	const ceiling = 4 * 64 << 10
	whole := b.succeed(t, "demo.large_output", `{"bytes":262144}`)
	if len(whole) != ceiling || !strings.HasPrefix(whole, "line 0000000001 of") {
		t.Errorf("%d bytes, %.30q", len(whole), whole)
	}
	if part := b.succeed(t, "demo.large_output", `{"bytes":1000}`); part != whole[:1000] {
		t.Error("the output depends on its length")
	}
	r, err := b.execute(t, "demo.large_output", `{"bytes":1073741824}`)
	if err != nil || r.OK || r.Failure.Kind != tool.FailOutputTooLarge || text(r) != whole {
		t.Errorf("%+v, %d bytes, %v", r.Failure, len(text(r)), err)
	}
}

func TestDemoWriteToFile(t *testing.T) {
	t.Parallel()
	sink := filepath.Join(t.TempDir(), "sink")
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	o := builtin.Options{Demo: builtin.DemoSink{File: sink}, Now: func() time.Time { return now }}
	b := newBench(t, o)
	b.tools = append(b.tools, builtin.DemoWrite(o, "demo.write_idempotent", tool.ExternalWrite, tool.Idempotent))
	b.succeed(t, "demo.external_write", `{"payload":{"n":1}}`)
	b.exec.AttemptNumber = 2
	b.succeed(t, "demo.write_idempotent", `{"payload":"two\nlines"}`)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			b.succeed(t, "demo.external_write", quote(map[string]string{"payload": strings.Repeat("x", 3000)}))
		})
	}
	wg.Wait()
	data, err := os.ReadFile(sink)
	if err != nil {
		t.Fatal(err)
	}
	got := records(t, data)
	if len(got) != 52 {
		t.Fatalf("%d records", len(got))
	}
	want := []builtin.DemoEffect{
		{"demo.external_write", b.exec.IdempotencyKey, 1, b.exec.InvocationID, json.RawMessage(`{"n":1}`), now},
		{"demo.write_idempotent", b.exec.IdempotencyKey, 2, b.exec.InvocationID, json.RawMessage(`"two\nlines"`), now},
	}
	if diff := cmp.Diff(want, got[:2]); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if s := b.tool(t, "demo.write_idempotent").Spec(); s.Idempotency != tool.Idempotent || s.SideEffect != tool.ExternalWrite {
		t.Errorf("%+v", s)
	}
}

// TestDemoWriteOrder looks where the pauses are: a call stopped before the effect has
// none, one stopped after it has one.
func TestDemoWriteOrder(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]int{
		`{"delay_before_seconds":30}`: 0,
		`{"delay_after_seconds":30}`:  1,
	} {
		sink := filepath.Join(t.TempDir(), "sink")
		b := newBench(t, builtin.Options{Demo: builtin.DemoSink{File: sink}})
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := b.tool(t, "demo.external_write").Execute(ctx, json.RawMessage(arguments), b.exec)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", arguments, err)
			}
		})
		data, err := os.ReadFile(sink)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if got := len(records(t, data)); got != want {
			t.Errorf("%s: %d effects, want %d", arguments, got, want)
		}
	}
}

func TestDemoWriteToURL(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var body []byte
	var key string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch r.URL.Path {
		case "/ok":
			body, _ = io.ReadAll(r.Body)
			key = r.Header.Get("Idempotency-Key")
		case "/redirect":
			http.Redirect(w, r, "/ok", http.StatusTemporaryRedirect)
		case "/busy":
			http.Error(w, "canary", http.StatusTooManyRequests)
		case "/cut":
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for _, row := range []struct {
		name, url, code string
		notApplied      bool
	}{
		{name: "accepted", url: server.URL + "/ok"},
		{name: "redirects are not followed", url: server.URL + "/redirect", code: "tool.upstream_error.http"},
		{name: "refused by the sink", url: server.URL + "/busy", code: "tool.upstream_error.rate_limited"},
		{name: "broken after dispatch", url: server.URL + "/cut", code: "tool.transport.protocol"},
		{name: "nobody listens", url: "http://127.0.0.1:1/", code: "tool.transport.connect", notApplied: true},
		{name: "not permitted", url: "http://127.0.0.2:9/", code: "tool.permission.egress", notApplied: true},
	} {
		b := newBench(t, builtin.Options{
			Egress: policy(t, address, "127.0.0.1:1"), Demo: builtin.DemoSink{URL: row.url},
		})
		if row.code == "" {
			b.succeed(t, "demo.external_write", `{"payload":7}`)
			continue
		}
		r, err := b.execute(t, "demo.external_write", `{}`)
		if err != nil || r.OK || r.Failure.ReasonCode != row.code || r.EffectNotApplied != row.notApplied {
			t.Errorf("%s: %+v, %+v, %v", row.name, r, r.Failure, err)
		} else if strings.Contains(r.Failure.Detail+text(r), "canary") {
			t.Errorf("%s: foreign text outside its place", row.name)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if e := records(t, body); len(e) != 1 || key != strings.Repeat("ab", 32) || string(e[0].Payload) != "7" {
		t.Errorf("the sink got %s under key %q", body, key)
	}
}

func TestDemoWriteWithoutSink(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	p, ok := b.tool(t, "demo.external_write").(tool.Preparer)
	if !ok {
		t.Fatal("the tool does not prepare")
	}
	err := p.Prepare(t.Context(), json.RawMessage(`{}`), b.exec)
	if u, ok := errors.AsType[*tool.Unavailable](err); !ok || u.Code != "tool.server_unreachable.demo_sink" {
		t.Errorf("prepare: %v", err)
	}
	if got := b.refuse(t, "demo.external_write", `{}`); got != "tool.not_found.demo_sink" {
		t.Errorf("execute: %s", got)
	}
}
