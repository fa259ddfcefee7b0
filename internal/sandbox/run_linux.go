package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// grace is how long the end of a run may lag behind its cause before harder means
// are taken; it is never waited for in full when all goes well.
const grace = 5 * time.Second

// confined runs c under the bubblewrap at path.
func (r *Runner) confined(ctx context.Context, path string, c Command) (Outcome, error) {
	statusRead, statusWrite, err := os.Pipe()
	if err != nil {
		return Outcome{}, fmt.Errorf("start bubblewrap: %w", err)
	}
	defer closeAll(statusRead, statusWrite)
	p := &process{
		path: path, args: r.bubblewrapArgs(c), env: Environment(insideHome, insideTmp), dir: "/",
		extra:  []*os.File{statusWrite}, // descriptor 3; the gate is 4
		limits: r.config.Limits,
	}
	// The status stream names the first process inside, before the command starts, and
	// the exit code, only if it did start: so a failed setup is told apart from a
	// failed command.
	status := json.NewDecoder(statusRead)
	p.inner = func() (int, error) {
		_ = statusWrite.Close()
		_ = statusRead.SetReadDeadline(time.Now().Add(grace))
		var first struct {
			PID int `json:"child-pid"` //nolint:tagliatelle // as bubblewrap spells it
		}
		if err := status.Decode(&first); err != nil || first.PID <= 0 {
			return 0, errors.New("bubblewrap could not create its namespaces")
		}
		return first.PID, nil
	}
	out, err := p.run(ctx, c)
	out.Confined = true
	if err != nil || out.Exceeded {
		return out, err
	}
	var last struct {
		ExitCode *int `json:"exit-code"` //nolint:tagliatelle // as bubblewrap spells it
	}
	_ = statusRead.SetReadDeadline(time.Now().Add(grace))
	if err := status.Decode(&last); err != nil || last.ExitCode == nil {
		return out, fmt.Errorf("bubblewrap failed before the command: %s", firstLine(out.Stderr))
	}
	return out, nil
}

// unconfined runs c as an ordinary child in a process group of its own.
func (r *Runner) unconfined(ctx context.Context, c Command) (Outcome, error) {
	scratch, err := os.MkdirTemp(r.config.Scratch, "toolbus-run-")
	if err != nil {
		return Outcome{}, fmt.Errorf("make private directories: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	home, tmp := filepath.Join(scratch, "home"), filepath.Join(scratch, "tmp")
	for _, dir := range []string{home, tmp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return Outcome{}, fmt.Errorf("make private directories: %w", err)
		}
	}
	const waitForGate = `read -r _ <&3 || exit 126; exec 3<&-; exec "$@"`
	p := &process{
		path: "/bin/sh", args: append([]string{"sh", "-c", waitForGate, "sh"}, c.Args...),
		env: Environment(home, tmp), dir: c.Dir, // the gate is descriptor 3
		limits:   r.config.Limits,
		leftover: "TMPDIR=" + tmp,
	}
	return p.run(ctx, c)
}

// exitCode gives the shell's view of an ended process.
func exitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte("\n"))
	return string(line[:min(len(line), 200)])
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // closing twice is harmless
		}
	}
}
