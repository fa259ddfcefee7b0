package demo

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// invocation is a row of `toolbus invocations list --json`.
type invocation struct {
	ID      string `json:"invocation_id"`
	Tool    string `json:"tool_name"`
	Status  string `json:"status"`
	Outcome string `json:"outcome_status"`
	Reason  string `json:"reason_code"`
	Attempt int    `json:"attempt_number"`
}

// approval is a row of `toolbus approvals list --json`.
type approval struct {
	ID           string `json:"approval_id"`
	InvocationID string `json:"invocation_id"`
}

// call starts `toolbus call` as a process, since it waits.
func call(t *testing.T, data, name, arguments string) *program {
	t.Helper()
	return start(t, "call", "--data", data, "--json", name, arguments)
}

// awaitApproval waits until a call waits for approval.
func awaitApproval(t *testing.T, data string) approval {
	t.Helper()
	return await(t, func() (approval, bool) {
		all := list[approval](t, "approvals", "list", "--data", data)
		if len(all) == 0 {
			return approval{}, false
		}
		return all[0], true
	})
}

// await asks until there is an answer.
func await[T any](t *testing.T, ask func() (T, bool)) T {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if got, ok := ask(); ok {
			return got
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("it does not come")
		}
	}
}

// TestKilledDevLosesNothing kills `toolbus dev`, database included, with one call
// done, one in the middle and one before a person.
func TestKilledDevLosesNothing(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	first := startDev(t, data)
	done := run(t, "call", "--data", data, "math.evaluate", `{"expression":"6*7"}`)
	if done.code != 0 || !strings.Contains(done.out, "42") {
		t.Fatalf("exit code %d: %s%s", done.code, done.out, done.err)
	}
	callers := []*program{call(t, data, "demo.external_write", `{"payload":"kept"}`)}
	waiting := awaitApproval(t, data)
	callers = append(callers, call(t, data, "demo.slow", `{"seconds":2}`))
	await(t, func() (any, bool) {
		return nil, slices.ContainsFunc(calls(t, data), func(i invocation) bool { return i.Tool == "demo.slow" && i.Status == "running" })
	})
	first.signal(t, syscall.SIGKILL)
	if a := run(t, "invocations", "list", "--data", data); a.code != 1 || !strings.Contains(a.err, "is gone") {
		t.Errorf("exit code %d: %s", a.code, a.err)
	}

	second := startDev(t, data)
	if second.HTTPToken != first.HTTPToken || second.NATSPassword != first.NATSPassword {
		t.Error("credentials changed")
	}
	if a := run(t, "approvals", "approve", "--data", data, waiting.ID); a.code != 0 {
		t.Fatalf("approve: %s", a.err)
	}
	want := map[string]int{"math.evaluate": 1, "demo.external_write": 1, "demo.slow": 2}
	await(t, func() (any, bool) {
		for _, i := range calls(t, data) {
			if i.Status != "succeeded" || i.Attempt != want[i.Tool] {
				return nil, false
			}
		}
		return nil, true
	})
	if got := len(calls(t, data)); got != len(want) {
		t.Errorf("%d calls, want %d", got, len(want))
	}
	// Those who waited were told by the second one what the first had begun.
	for _, p := range callers {
		if code := p.wait(t); code != 0 {
			t.Errorf("a caller that waited: exit code %d\n%s", code, p.stderr)
		}
	}
	if effects, err := os.ReadFile(filepath.Join(data, "demo-effects.jsonl")); err != nil || strings.Count(string(effects), "\n") != 1 {
		t.Errorf("effects: %s, %v", effects, err)
	}
	second.signal(t, syscall.SIGTERM)
	nothingLeft(t, data)
}

func calls(t *testing.T, data string) []invocation {
	t.Helper()
	return list[invocation](t, "invocations", "list", "--data", data)
}

// TestInterruptStopsInOrder ends `toolbus dev` as Ctrl-C does, twice in a row as
// some senders do.
func TestInterruptStopsInOrder(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	d := startDev(t, data)
	if info, err := os.Stat(filepath.Join(data, "dev.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("dev.json: %v, %v", info, err)
	}
	if d.Data != data || d.DatabaseURL == "" || d.NATSUser == "" || !strings.HasPrefix(d.HTTPURL, "http://127.0.0.1:") || strings.HasSuffix(d.HTTPURL, ":0") {
		t.Errorf("%+v", d)
	}
	other := run(t, "dev", "--data", data, "--http", "127.0.0.1:0")
	if other.code != 1 || !strings.Contains(other.err, "another `toolbus dev` runs") {
		t.Errorf("a second one on the same data: exit code %d: %s", other.code, other.err)
	}
	if a := run(t, "version"); a.code != 0 {
		t.Errorf("version: %+v", a)
	}
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := d.signal(t, syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d", code)
	}
	services, engines := strings.Index(d.stderr.String(), "services stopped"), strings.Index(d.stderr.String(), "engines stopped")
	if services < 0 || engines < services {
		t.Errorf("order of the stop:\n%s", d.stderr)
	}
	if !missing(filepath.Join(data, "dev.json")) {
		t.Error("dev.json is left behind")
	}
	nothingLeft(t, data)
}

// TestServicesBesideDev runs services beside a `toolbus dev`, which they find
// without being told where.
func TestServicesBesideDev(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	startDev(t, data)
	for _, service := range []string{"executor", "gatekeeper", "recovery", "telemetry"} {
		p := startWith(t, []string{"TOOLBUS_HTTP_ADDRESS=127.0.0.1:0"}, service, "--data", data, "--json")
		line, err := p.stdout.ReadBytes('\n')
		var said struct {
			Service string `json:"service"`
			Ready   bool   `json:"ready"`
		}
		if err != nil || json.Unmarshal(line, &said) != nil || said.Service != service || !said.Ready {
			t.Fatalf("%s: %s, %v\n%s", service, line, err, p.stderr)
		}
		if code := p.signal(t, syscall.SIGTERM); code != 0 {
			t.Errorf("%s: exit code %d\n%s", service, code, p.stderr)
		}
	}
	if a := run(t, "migrate", "--data", data); a.code != 0 {
		t.Errorf("migrate: %d, %s", a.code, a.err)
	}
}

// TestBusyPorts: what another program has is said before anything waits for it.
func TestBusyPorts(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	data := dataDir(t)
	a := run(t, "dev", "--data", data, "--http", "127.0.0.1:0", "--nats-port", port)
	if a.code != 1 || !strings.Contains(a.err, "address already in use") || !strings.Contains(a.err, "--nats-port") {
		t.Errorf("nats: exit code %d: %s", a.code, a.err)
	}
	a = run(t, "dev", "--data", data, "--http", "127.0.0.1:"+port)
	if a.code != 1 || !strings.Contains(a.err, "address already in use") || !strings.Contains(a.err, "next: name another address with --http") {
		t.Errorf("http: exit code %d: %s", a.code, a.err)
	}
	nothingLeft(t, data)
}

// TestDatabaseKilled: without its database `toolbus dev` ends, and says so.
func TestDatabaseKilled(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	d := startDev(t, data)
	text, err := os.ReadFile(filepath.Join(data, "postgres", "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if code := d.wait(t); code != 1 || !strings.Contains(d.stderr.String(), "start it again") {
		t.Errorf("exit code %d\n%s", code, d.stderr)
	}
	nothingLeft(t, data)
}
