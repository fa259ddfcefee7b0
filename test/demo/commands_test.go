package demo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestCommands drives one `toolbus dev` through every command that talks to a
// system.
func TestCommands(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	d := startDev(t, data)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("dev said:\n%s", d.stderr)
		}
	})
	for name, test := range map[string]func(*testing.T, string){
		"call": testCall, "session": testSession, "approval": testApproval, "uncertain": testUncertain,
		"tail": testTail, "device": testDevice, "doctor": testDoctor, "tenant": testTenant, "elsewhere": testElsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, data)
		})
	}
}

func testCall(t *testing.T, data string) {
	t.Helper()
	for _, c := range []struct {
		name  string
		args  []string
		stdin string
		code  int
		says  string
	}{
		{"succeeded", []string{"math.evaluate", `{"expression":"6*7"}`}, "", 0, "42"},
		{"by standard input", []string{"demo.echo", "-"}, `{"text":"from a pipe"}`, 0, "from a pipe"},
		{"as json", []string{"--json", "math.evaluate", `{"expression":"6*7"}`}, "", 0, `"status":"succeeded"`},
		{"escaped", []string{"demo.echo", `{"text":"\u001b[2J\u202e"}`}, "", 0, `\u{001B}[2J\u{202E}`},
		{"failed", []string{"math.evaluate", `{"expresion":"1"}`}, "", 3, "tool.arguments_invalid"},
		{"denied", []string{"no.such"}, "", 3, "policy.matrix.unknown_tool"},
		{"denied for want of trust", []string{"--unattended", "--trust", "external_untrusted", "workspace.write_text", `{"path":"a","text":"b"}`}, "", 3, "policy.matrix"},
		{"too late", []string{"--timeout", "300ms", "demo.slow", `{"seconds":30}`}, "", 3, "tool.timeout"},
		{"too much trust", []string{"--trust", "platform", "demo.echo"}, "", 2, "origin_trust"},
		{"unknown session", []string{"--session", "01a23328-e622-7000-9495-24d4543f1c1f", "demo.echo"}, "", 1, "session open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := runWith(t, c.stdin, nil, append([]string{"call", "--data", data}, c.args...)...)
			if a.code != c.code || !strings.Contains(a.out+a.err, c.says) {
				t.Errorf("exit code %d, want %d with %q:\n%s%s", a.code, c.code, c.says, a.out, a.err)
			}
		})
	}
}

func testSession(t *testing.T, data string) {
	t.Helper()
	a := run(t, "session", "open", "--data", data, "--json", "--tools", "math.*", "--tools", "demo.echo")
	var opened struct {
		ID    string `json:"session_id"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal([]byte(a.out), &opened); a.code != 0 || err != nil || len(opened.Tools) != 2 {
		t.Fatalf("exit code %d, %v: %s%s", a.code, err, a.out, a.err)
	}
	if a := run(t, "call", "--data", data, "--session", opened.ID, "system.time"); a.code != 3 || !strings.Contains(a.out, "policy.matrix.unknown_tool") {
		t.Errorf("a tool that is not pinned: %+v", a)
	}
	if a := run(t, "session", "close", "--data", data, opened.ID); a.code != 0 {
		t.Errorf("close: %+v", a)
	}
	if a := run(t, "call", "--data", data, "--session", opened.ID, "demo.echo"); a.code != 1 || !strings.Contains(a.err, "session_closed") {
		t.Errorf("a session that is closed: %+v", a)
	}
	if a := run(t, "session", "open", "--data", data); a.code != 0 || !strings.Contains(a.out, "workspace_write") {
		t.Errorf("for a person: %+v", a)
	}
}

func testApproval(t *testing.T, data string) {
	t.Helper()
	p := call(t, data, "demo.external_write", `{"payload":"to\u202e\u200bmorrow"}`)
	waiting := awaitApproval(t, data)
	shown := run(t, "approvals", "list", "--data", data)
	for _, part := range []string{waiting.ID, `"payload":"to\u{202E}\u{200B}morrow"`, "sha256", "expires", "external_write"} {
		if !strings.Contains(shown.out, part) {
			t.Errorf("%q is not shown:\n%s", part, shown.out)
		}
	}
	if a := run(t, "approvals", "deny", "--data", data, waiting.ID, "--actor", "alice", "--comment", "no"); a.code != 0 || !strings.Contains(a.out, "by alice") {
		t.Errorf("deny: %+v", a)
	}
	if code := p.wait(t); code != 3 {
		t.Errorf("a denied call: exit code %d", code)
	}
	if !strings.Contains(p.stderr.String(), "approvals approve --data "+data+" "+waiting.ID) {
		t.Errorf("the caller is not told how to go on: %s", p.stderr)
	}
	if a := run(t, "approvals", "approve", "--data", data, waiting.ID); a.code != 1 || !strings.Contains(a.err, "refused") {
		t.Errorf("decided twice: %+v", a)
	}
	a := run(t, "invocations", "show", "--data", data, waiting.InvocationID)
	for _, part := range []string{"denied", "approval.requested", "approval.decided", "tool.call.denied", "since start"} {
		if !strings.Contains(strings.ToLower(a.out), part) {
			t.Errorf("%q is not in the timeline:\n%s", part, a.out)
		}
	}
}

func testUncertain(t *testing.T, data string) {
	t.Helper()
	if got := list[json.RawMessage](t, "uncertain", "list", "--data", data); len(got) != 0 {
		t.Errorf("%s", got)
	}
	if a := run(t, "uncertain", "review", "--data", data, "01a23328-e622-7000-9495-24d4543f1c1f", "happened"); a.code != 1 || !strings.Contains(a.err, "refused") {
		t.Errorf("%+v", a)
	}
	if a := run(t, "invocations", "show", "--data", data, "01a23328-e622-7000-9495-24d4543f1c1f"); a.code != 1 || !strings.Contains(a.err, "not_found") {
		t.Errorf("%+v", a)
	}
}

func testTail(t *testing.T, data string) {
	t.Helper()
	p := start(t, "tail", "--data", data, "--event", "tool.call.completed", "--json")
	await(t, func() (any, bool) { return nil, strings.Contains(p.stderr.String(), "following") })
	if a := run(t, "call", "--data", data, "demo.echo"); a.code != 0 {
		t.Fatalf("%+v", a)
	}
	var event struct {
		Event string `json:"event"`
		Tool  string `json:"tool_name"`
	}
	for event.Tool != "demo.echo" { // there are other calls on the bus
		line, err := p.stdout.ReadBytes('\n')
		if err != nil || json.Unmarshal(line, &event) != nil || event.Event != "tool.call.completed" {
			t.Fatalf("%s, %v", line, err)
		}
	}
	if code := p.signal(t, syscall.SIGINT); code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
}

const phone = `[{"name":"device.phone.locate","version":"1","description":"Where it is.","input_schema":{"type":"object"},
	"side_effect":"external_read","risk":"low","idempotency":"read_only","output_trust":"platform","timeout_seconds":5,"maximum_output_bytes":1024}]`

func testDevice(t *testing.T, data string) {
	t.Helper()
	specs := filepath.Join(t.TempDir(), "phone.json")
	if err := os.WriteFile(specs, []byte(phone), 0o600); err != nil {
		t.Fatal(err)
	}
	a := run(t, "device", "attach", "--data", data, "phone", "--specs", specs, "--json")
	if a.code != 0 || !strings.Contains(a.out, `"output_trust":"external_untrusted"`) {
		t.Fatalf("trust is not forced: %+v", a)
	}
	if a := run(t, "call", "--data", data, "device.phone.locate"); a.code != 3 || !strings.Contains(a.out, "tool.device_offline") {
		t.Errorf("no process is connected to it: %+v", a)
	}
	if a := run(t, "device", "detach", "--data", data, "phone"); a.code != 0 {
		t.Errorf("detach: %+v", a)
	}
	if a := run(t, "device", "detach", "--data", data, "phone"); a.code != 1 || !strings.Contains(a.err, "device list") {
		t.Errorf("detach again: %+v", a)
	}
	if a := run(t, "device", "list", "--data", data); !strings.Contains(a.out, "detached") || !strings.Contains(a.out, "device.phone.locate") {
		t.Errorf("list: %+v", a)
	}
	for _, bad := range []string{
		strings.Replace(phone, "device.phone", "workspace", 1), strings.Replace(phone, `"risk":"low"`, `"risk":"none"`, 1),
		strings.Replace(phone, "version", "verzion", 1), "{}",
	} {
		if a := runWith(t, bad, nil, "device", "attach", "--data", data, "phone", "--specs", "-"); a.code != 2 {
			t.Errorf("%s: %+v", bad, a)
		}
	}
}

func testDoctor(t *testing.T, data string) {
	t.Helper()
	a := run(t, "doctor", "--data", data, "--json")
	var found []struct {
		Check string `json:"check"`
		OK    bool   `json:"ok"`
	}
	if err := json.Unmarshal([]byte(a.out), &found); err != nil {
		t.Fatalf("%v: %s%s", err, a.out, a.err)
	}
	looked := map[string]bool{}
	for _, f := range found {
		looked[f.Check] = f.OK
	}
	for _, check := range []string{"system", "postgresql", "roles", "schema", "clocks", "nats", "streams", "postgresql binaries", "disk"} {
		if !looked[check] {
			t.Errorf("%s: not looked at, or not well", check)
		}
	}
	if _, ok := looked["sandbox"]; !ok {
		t.Error("sandbox: not looked at")
	}
	// An engine that does not answer is a problem with something to do about it.
	wrong := []string{"TOOLBUS_DATABASE_URL=postgres://nobody@127.0.0.1:1/none"}
	a = runWith(t, "", wrong, "doctor", "--data", data)
	if a.code != 1 || !strings.Contains(a.out, "✗ postgresql") || !strings.Contains(a.out, "mend:") || !strings.Contains(a.out, "✓ nats") {
		t.Errorf("exit code %d: %s%s", a.code, a.out, a.err)
	}
}

// testTenant: a tenant sees nothing of another.
func testTenant(t *testing.T, data string) {
	t.Helper()
	if a := run(t, "call", "--data", data, "--tenant", "acme", "demo.echo"); a.code != 0 {
		t.Fatalf("%+v", a)
	}
	if got := list[invocation](t, "invocations", "list", "--data", data, "--tenant", "acme"); len(got) != 1 {
		t.Errorf("%d calls of acme", len(got))
	}
	if got := list[invocation](t, "invocations", "list", "--data", data, "--tenant", "other"); len(got) != 0 {
		t.Errorf("%d calls of a tenant that made none", len(got))
	}
}

// testElsewhere: an address wins over the data directory.
func testElsewhere(t *testing.T, data string) {
	t.Helper()
	about, err := os.ReadFile(filepath.Join(data, "dev.json"))
	var d dev
	if err != nil || json.Unmarshal(about, &d) != nil {
		t.Fatalf("dev.json: %v", err)
	}
	address := strings.Replace(d.NATSURL, "nats://", "nats://"+d.NATSUser+":"+d.NATSPassword+"@", 1)
	if a := run(t, "call", "--server", address, "demo.echo"); a.code != 0 {
		t.Errorf("--server: %+v", a)
	}
	if a := runWith(t, "", []string{"TOOLBUS_NATS_URL=" + address}, "call", "demo.echo"); a.code != 0 {
		t.Errorf("TOOLBUS_NATS_URL: %+v", a)
	}
}
