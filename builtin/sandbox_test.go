//go:build linux

package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolbus/toolbus/builtin"
	"github.com/toolbus/toolbus/internal/sandbox"
	"github.com/toolbus/toolbus/tool"
)

func TestRunCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	b.write(t, "in.txt", "3\n1\n2\n")
	for arguments, want := range map[string]string{
		`{"command":"sort in.txt | tee out.txt"}`:     "1\n2\n3\n[exit code 0]",
		`{"command":"printf no newline"}`:             "no\n[exit code 0]",
		`{"command":"cat; exit 4","stdin":"given"}`:   "given\n[exit code 4]",
		`{"command":"echo out; echo err >&2; false"}`: "out\n[standard error]\nerr\n[exit code 1]",
		`{"command":"printf 'caf\\351\\000'"}`:        "caf��\n[exit code 0]",
		`{"command":"pwd"}`:                           "/workspace\n[exit code 0]",
	} {
		if got := b.succeed(t, "sandbox.run_command", arguments); got != want {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
	}
	if got := b.succeed(t, "workspace.read_text", `{"path":"out.txt"}`); got != "1\n2\n3\n" {
		t.Errorf("the workspace holds %q", got)
	}
	p, ok := b.tool(t, "sandbox.run_command").(tool.Preparer)
	if !ok {
		t.Fatal("the tool does not prepare")
	}
	if err := p.Prepare(t.Context(), json.RawMessage(`{"command":"true"}`), b.exec); err != nil {
		t.Errorf("prepare: %v", err)
	}
}

func TestRunCommandLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{MaximumOutputBytes: 1000})
	r, err := b.execute(t, "sandbox.run_command", `{"command":"echo begin; sleep 100","timeout_seconds":1}`)
	if err != nil || r.OK || r.Failure.Kind != tool.FailTimeout || text(r) != "begin\n[killed: 1s passed]" {
		t.Errorf("own time limit: %+v, %q, %v", r.Failure, text(r), err)
	}
	r, err = b.execute(t, "sandbox.run_command", `{"command":"yes"}`)
	if err != nil || r.OK || r.Failure.Kind != tool.FailOutputTooLarge || len(text(r)) < 4000 || !strings.HasPrefix(text(r), "y\ny\n") {
		t.Errorf("endless output: %+v, %d bytes, %v", r.Failure, len(text(r)), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	exec := *b.exec
	exec.MaximumOutputBytes = 1000
	_, err = b.tool(t, "sandbox.run_command").Execute(ctx, json.RawMessage(`{"command":"sleep 100"}`), &exec)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the deadline of the call: %v", err)
	}
}

func TestRunCommandWithoutBubblewrap(t *testing.T) {
	t.Parallel()
	absent := sandbox.Config{Bubblewrap: "/nonexistent/bwrap"}
	b := newBench(t, builtin.Options{Sandbox: absent})
	x := b.tool(t, "sandbox.run_command")
	p, ok := x.(tool.Preparer)
	if !ok {
		t.Fatal("the tool does not prepare")
	}
	arguments := json.RawMessage(`{"command":"touch ran"}`)
	unavailable, ok := errors.AsType[*tool.Unavailable](p.Prepare(t.Context(), arguments, b.exec))
	if !ok || unavailable.Code != "tool.server_unreachable.sandbox" || !strings.Contains(unavailable.Detail, "bwrap") {
		t.Errorf("prepare: %+v", unavailable)
	}
	if _, err := x.Execute(t.Context(), arguments, b.exec); !errors.Is(err, sandbox.ErrUnconfined) {
		t.Errorf("execute: %v", err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
		t.Error("the command ran")
	}
	absent.AllowUnconfined, absent.Scratch = true, t.TempDir()
	b = newBench(t, builtin.Options{Sandbox: absent})
	if got := b.succeed(t, "sandbox.run_command", `{"command":"echo ran"}`); got != "ran\n[exit code 0]" {
		t.Errorf("allowed: %q", got)
	}
}
