package demo

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolbus/toolbus/cmd/toolbus/cli"
)

// TestUse has a row for every way in which a command ends before it reaches a
// system.
func TestUse(t *testing.T) {
	t.Parallel()
	none := t.TempDir()
	broken := filepath.Join(none, "broken.yaml")
	if err := os.WriteFile(broken, []byte("lease: {secnds: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := "01a23328-e622-7000-9495-24d4543f1c1f"
	for _, c := range []struct {
		name string
		args []string
		env  []string
		code int
		says string
	}{
		{"version", []string{"version"}, nil, 0, "toolbus 1.2.3"},
		{"version as json", []string{"version", "--json"}, nil, 0, `"version":"1.2.3"`},
		{"help", []string{"--help"}, nil, 0, "invocations"},
		{"help of a command", []string{"call", "--help"}, nil, 0, "--trust"},
		{"nothing", nil, nil, 2, "next: toolbus --help"},
		{"unknown command", []string{"frobnicate"}, nil, 2, "frobnicate"},
		{"unknown flag", []string{"call", "--frobnicate", "x"}, nil, 2, "next: toolbus call --help"},
		{"command without its own", []string{"approvals"}, nil, 2, "next: toolbus approvals --help"},
		{"no tool", []string{"call"}, nil, 2, "<name>"},
		{"arguments are no json", []string{"call", "demo.echo", "{"}, nil, 2, "JSON object"},
		{"arguments are no object", []string{"call", "demo.echo", "[]"}, nil, 2, "JSON object"},
		{"arguments are null", []string{"call", "demo.echo", "null"}, nil, 2, "JSON object"},
		{"unknown trust", []string{"call", "demo.echo", "--trust", "blind"}, nil, 2, "--trust"},
		{"bad tenant", []string{"call", "demo.echo", "--tenant", "a.b"}, nil, 2, "--tenant"},
		{"bad actor", []string{"approvals", "approve", id, "--actor", "a b"}, nil, 2, "--actor"},
		{"bad id", []string{"approvals", "deny", "x"}, nil, 2, "approval"},
		{"bad run", []string{"tail", "--run", "x"}, nil, 2, "--run"},
		{"bad status", []string{"invocations", "list", "--status", "lost"}, nil, 2, "--status"},
		{"bad limit", []string{"invocations", "list", "--limit", "-1"}, nil, 2, "--limit"},
		{"bad verdict", []string{"uncertain", "review", id, "perhaps"}, nil, 2, "verdict"},
		{"bad duration", []string{"call", "demo.echo", "--timeout", "soon"}, nil, 2, "--timeout"},
		{"bad address", []string{"dev", "--data", none, "--http", "nowhere"}, nil, 2, "--http"},
		{"too many processes", []string{"demo", "--executors", "99"}, nil, 2, "executor"},
		{"no configuration file", []string{"migrate", "--config", filepath.Join(none, "no.yaml")}, nil, 2, "no.yaml"},
		{"unknown key", []string{"executor", "--config", broken}, nil, 2, "line 1"},
		{"bad variable", []string{"recovery"}, []string{"TOOLBUS_LEASE_SECONDS=soon"}, 2, "TOOLBUS_LEASE_SECONDS"},
		{"no declarations", []string{"device", "attach", "phone", "--specs", filepath.Join(none, "no.json")}, nil, 2, "--specs"},
		{"misspelled variable", []string{"call", "demo.echo", "--data", none}, []string{"TOOLBUS_LEESE_SECONDS=3"}, 1, "TOOLBUS_LEESE_SECONDS"},
		{"no system", []string{"call", "demo.echo", "--data", none}, nil, 1, "toolbus dev"},
		{"no system by variable", []string{"call", "demo.echo"}, []string{"TOOLBUS_DATA=" + none}, 1, none},
		{"no system for a service", []string{"gatekeeper", "--data", none}, nil, 1, "TOOLBUS_NATS_URL"},
		{"no system for the doctor", []string{"doctor", "--data", none}, nil, 1, "toolbus dev"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := runWith(t, "", c.env, c.args...)
			if a.code != c.code || !strings.Contains(a.out+a.err, c.says) {
				t.Errorf("exit code %d, want %d with %q:\n%s%s", a.code, c.code, c.says, a.out, a.err)
			}
			if c.code != 0 && a.out != "" && c.args[0] != "doctor" {
				t.Errorf("standard output is for results: %s", a.out)
			}
		})
	}
}

// TestStaleFile: a file that a killed `toolbus dev` left behind is no system.
func TestStaleFile(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	about, err := json.Marshal(map[string]string{"nats_url": "nats://" + address, "data": data})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "dev.json"), about, 0o600); err != nil {
		t.Fatal(err)
	}
	a := run(t, "invocations", "list", "--data", data)
	if a.code != 1 || !strings.Contains(a.err, "is gone") || !strings.Contains(a.err, "toolbus dev") {
		t.Errorf("exit code %d: %s", a.code, a.err)
	}
}

// TestInterrupted: a command whose context ends says so and fails.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said strings.Builder
	code := cli.Run(ctx, cli.Build{}, cli.Process{
		Args: []string{"dev", "--data", dataDir(t)}, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &said,
	})
	if code != 1 || !strings.Contains(said.String(), "interrupted") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
}
