package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/cmd/toolbus/cli"
)

func TestDiceAddUp(t *testing.T) {
	t.Parallel()
	d := &dice{roll: func(sides int) int { return sides - 1 }}
	r, err := d.Execute(t.Context(), json.RawMessage(`{"dice":3,"sides":20}`), nil)
	if err != nil || !r.OK {
		t.Fatalf("%+v, %v", r, err)
	}
	if diff := cmp.Diff(`{"rolls":[20,20,20],"sum":60}`, string(r.Structured)); diff != "" {
		t.Error(diff)
	}
}

// TestCallThroughTheBus runs the whole build: the tool is offered, validated,
// executed and recorded as any other.
func TestCallThroughTheBus(t *testing.T) {
	t.Parallel()
	data := traversable(t)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var said bytes.Buffer
	lines, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := cli.Run(ctx, build(), process(out, &said, "dev", "--data", data, "--http", "127.0.0.1:0", "--json"))
		_ = out.Close()
		ended <- code
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("dev ended with %d: %s", code, said.String())
		}
	})
	var about map[string]string
	if err := json.NewDecoder(lines).Decode(&about); err != nil {
		t.Fatalf("dev is not ready: %v", err)
	}
	var result, problem bytes.Buffer
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	code := cli.Run(bounded, build(), process(&result, &problem, "call", "--data", data, "dice.roll", `{"dice":2}`))
	if code != 0 || !strings.Contains(result.String(), "sum") {
		t.Errorf("exit code %d: %s%s", code, result.String(), problem.String())
	}
	if code := cli.Run(bounded, build(), process(io.Discard, io.Discard, "call", "--data", data, "dice.roll", `{"dice":0}`)); code != 3 {
		t.Errorf("arguments outside the schema: exit code %d, want 3", code)
	}
}

func process(out, problems io.Writer, args ...string) cli.Process {
	return cli.Process{Args: args, Stdin: strings.NewReader(""), Stdout: out, Stderr: problems}
}

// traversable gives a data directory that another account may pass through, as
// PostgreSQL needs it when the tests run as root.
func traversable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "toolbus-example-") //nolint:usetesting // t.TempDir has parents that are closed to other accounts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}
