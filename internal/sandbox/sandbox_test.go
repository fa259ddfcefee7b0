//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolbus/toolbus/internal/sandbox"
)

// TestMain runs the tests, or, started with the arguments of victim, one command
// until somebody kills the process.
func TestMain(m *testing.M) {
	flag.Parse()
	if args := flag.Args(); len(args) == 3 {
		runner := sandbox.New(sandbox.Config{Bubblewrap: args[0], AllowUnconfined: true})
		_, err := runner.Run(context.Background(), shell(args[1], args[2]))
		fmt.Fprintln(os.Stderr, "ended before it was killed:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// TestParentKilled kills the supervising process itself: the command must not
// outlive it.
func TestParentKilled(t *testing.T) {
	t.Parallel()
	for mode, path := range map[string]string{"confined": "", "unconfined": "/nonexistent/bwrap"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mark := fmt.Sprintf("%d.%d", 500000+os.Getpid(), len(mode))
			victim := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$", "--", path, dir, "echo > started; exec sleep "+mark)
			victim.Stderr = t.Output()
			if err := victim.Start(); err != nil {
				t.Fatal(err)
			}
			awaitFile(t.Context(), filepath.Join(dir, "started"))
			_ = victim.Process.Kill()
			_ = victim.Wait()
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				var running int
				for _, file := range alive(t, mark) {
					if name, err := os.Readlink(filepath.Join(filepath.Dir(file), "exe")); err == nil && name != "" {
						running++
					}
				}
				if running == 0 {
					return
				}
				select {
				case <-tick.C:
				case <-t.Context().Done():
					t.Fatal("the command is still running")
				}
			}
		})
	}
}

// modes are the two ways to run a command. Bubblewrap must be installed where these
// tests run: the confined rows fail without it.
func modes(t *testing.T, limits sandbox.Limits) map[string]*sandbox.Runner {
	t.Helper()
	return map[string]*sandbox.Runner{
		"confined": sandbox.New(sandbox.Config{Limits: limits}),
		"unconfined": sandbox.New(sandbox.Config{
			Bubblewrap: "/nonexistent/bwrap", AllowUnconfined: true, Scratch: t.TempDir(), Limits: limits,
		}),
	}
}

func shell(dir, script string) sandbox.Command {
	return sandbox.Command{Args: []string{"/bin/sh", "-c", script}, Dir: dir, OutputBytes: 1 << 20}
}

func run(t *testing.T, r *sandbox.Runner, c sandbox.Command) sandbox.Outcome {
	t.Helper()
	out, err := r.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("run %q: %v", c.Args, err)
	}
	return out
}

func TestRun(t *testing.T) {
	t.Parallel()
	for mode, runner := range modes(t, sandbox.Limits{}) {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			for _, row := range []struct {
				name, script, stdin, stdout, stderr string
				code                                int
			}{
				{name: "streams", script: "echo out; echo err >&2", stdout: "out\n", stderr: "err\n"},
				{name: "exit code", script: "exit 7", code: 7},
				{name: "killed by a signal", script: "kill -9 $$", code: 137},
				{name: "program not found", script: "no-such-program", code: 127, stderr: "/bin/sh: 1: no-such-program: not found\n"},
				{name: "standard input", script: "cat", stdin: "given", stdout: "given"},
				{name: "input nobody reads", script: "true", stdin: strings.Repeat("x", 1<<20)},
				{name: "no input", script: "cat; echo end", stdout: "end\n"},
				{name: "working directory", script: "cat file; echo new > made", stdout: "content\n"},
			} {
				t.Run(row.name, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					if err := os.WriteFile(filepath.Join(dir, "file"), []byte("content\n"), 0o600); err != nil {
						t.Fatal(err)
					}
					c := shell(dir, row.script)
					c.Stdin = []byte(row.stdin)
					out := run(t, runner, c)
					got := []any{string(out.Stdout), string(out.Stderr), out.ExitCode, out.Exceeded, out.Confined}
					want := []any{row.stdout, row.stderr, row.code, false, mode == "confined"}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("outcome (-want +got):\n%s", diff)
					}
					if row.name == "working directory" {
						if b, err := os.ReadFile(filepath.Join(dir, "made")); err != nil || string(b) != "new\n" {
							t.Errorf("file made by the command: %q, %v", b, err)
						}
					}
				})
			}
		})
	}
}

// TestNoInheritedDescriptor starts commands while this process holds a descriptor
// without the mark that keeps it from children, as one that it was itself started with.
func TestNoInheritedDescriptor(t *testing.T) {
	for mode, runner := range modes(t, sandbox.Limits{}) {
		leaky, err := syscall.Dup(1)
		if err != nil {
			t.Fatal(err)
		}
		out := run(t, runner, shell(t.TempDir(), "ls /proc/self/fd")) // 3 is the directory itself
		if got := string(out.Stdout); got != "0\n1\n2\n3\n" {
			t.Errorf("%s: the command holds the descriptors %q", mode, got)
		}
		_ = syscall.Close(leaky)
	}
}

func TestEnvironmentIsConstructed(t *testing.T) {
	t.Setenv("TOOLBUS_SENTINEL", "must not be inherited")
	for mode, runner := range modes(t, sandbox.Limits{}) {
		out := run(t, runner, sandbox.Command{Args: []string{"/usr/bin/env"}, Dir: t.TempDir(), OutputBytes: 1 << 16})
		got := strings.Split(strings.TrimSpace(string(out.Stdout)), "\n")
		if mode == "unconfined" { // a shell adds these to its own environment on the way
			got = slices.DeleteFunc(got, func(v string) bool {
				return strings.HasPrefix(v, "PWD=") || strings.HasPrefix(v, "SHLVL=") || strings.HasPrefix(v, "_=")
			})
		}
		home, tmp := "/home/toolbus", "/tmp"
		for _, v := range got {
			if mode == "unconfined" && strings.HasPrefix(v, "HOME=") {
				home = strings.TrimPrefix(v, "HOME=")
				tmp = filepath.Join(filepath.Dir(home), "tmp")
			}
		}
		want := sandbox.Environment(home, tmp)
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s environment (-want +got):\n%s", mode, diff)
		}
		if mode == "unconfined" {
			if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the private directory is still there: %v", err)
			}
		}
	}
}

func TestReserved(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"PATH": true, "HOME": true, "TMPDIR": true, "LANG": true, "TZ": true, "USER": true,
		"LD_PRELOAD": true, "DYLD_INSERT_LIBRARIES": true, "ld_library_path": true, "Path": true,
		"TOKEN": false, "HOMEPAGE": false, "OLD_PATH": false, "": false,
	} {
		if got := sandbox.Reserved(name); got != want {
			t.Errorf("Reserved(%q) = %t", name, got)
		}
	}
	if diff := cmp.Diff([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/h", "TMPDIR=/t", "LANG=C.UTF-8", "TZ=UTC", "USER=toolbus",
	}, sandbox.Environment("/h", "/t")); diff != "" {
		t.Errorf("tier-0 environment (-want +got):\n%s", diff)
	}
}

// alive lists the processes of the host whose command line holds mark.
func alive(t *testing.T, mark string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Fatalf("list processes: %v", err)
	}
	var found []string
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), mark) {
			found = append(found, file)
		}
	}
	return found
}

// TestNothingSurvives ends commands that leave descendants of every kind behind: in
// the group, in a session of their own, deaf to signals.
func TestNothingSurvives(t *testing.T) {
	t.Parallel()
	const spawn = `
		sleep %[1]s &
		setsid sleep %[1]s &
		(trap '' TERM HUP INT; sleep %[1]s; sleep %[1]s) &
		env -i sleep %[1]s &
		setsid sh -c 'setsid sleep %[1]s & sleep %[1]s' &
		echo ready > started
		%[2]s`
	for mode, runner := range modes(t, sandbox.Limits{}) {
		for n, row := range []struct {
			name, last string
			cancel     bool
		}{
			{name: "the command ends by itself", last: "exit 3"},
			{name: "the context ends", last: "sleep 86400", cancel: true},
			{name: "output passes the bound", last: "yes"},
		} {
			t.Run(mode+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				mark := fmt.Sprintf("%d.%d%d", 400000+os.Getpid(), n, len(mode))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if row.cancel {
					go func() {
						awaitFile(ctx, filepath.Join(dir, "started"))
						cancel()
					}()
				}
				out, err := runner.Run(ctx, shell(dir, fmt.Sprintf(spawn, mark, row.last)))
				if row.cancel != errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				if !row.cancel && (row.last == "yes") != out.Exceeded {
					t.Errorf("exceeded = %t", out.Exceeded)
				}
				if _, err := os.Stat(filepath.Join(dir, "started")); err != nil {
					t.Fatalf("the command did not come so far: %v (%s)", err, out.Stderr)
				}
				if left := alive(t, mark); len(left) > 0 {
					t.Errorf("still running: %v", left)
				}
			})
		}
	}
}

// awaitFile returns once the file exists.
func awaitFile(ctx context.Context, name string) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	for mode, runner := range modes(t, sandbox.Limits{}) {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := shell(t.TempDir(), "yes & yes >&2")
			c.OutputBytes = 100_000
			out := run(t, runner, c)
			if n := len(out.Stdout) + len(out.Stderr); n != 100_000 || !out.Exceeded {
				t.Errorf("kept %d bytes, exceeded %t", n, out.Exceeded)
			}
			c = shell(t.TempDir(), "printf 12345")
			c.OutputBytes = 5
			if out := run(t, runner, c); out.Exceeded || string(out.Stdout) != "12345" {
				t.Errorf("exactly the bound: %q, exceeded %t", out.Stdout, out.Exceeded)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	limits := sandbox.Limits{CPUSeconds: 1, MemoryBytes: 64 << 20, FileBytes: 1 << 20, OpenFiles: 16, Processes: 40}
	for mode, runner := range modes(t, limits) {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			// What the kernel reports to the command itself.
			out := run(t, runner, shell(t.TempDir(), "cat /proc/self/limits"))
			got := map[string]string{}
			for line := range strings.Lines(string(out.Stdout)) {
				if len(line) > 46 {
					got[strings.TrimSpace(line[:26])] = strings.TrimSpace(line[26:46])
				}
			}
			for name, want := range map[string]string{
				"Max cpu time": "1", "Max address space": "67108864", "Max file size": "1048576",
				"Max open files": "16", "Max processes": "40", "Max core file size": "0",
			} {
				if got[name] != want {
					t.Errorf("%s is %q, want %s", name, got[name], want)
				}
			}
			// That they bite. The kernel does not apply the number of processes to root.
			if out := run(t, runner, shell(t.TempDir(), "while :; do :; done")); out.ExitCode != 128+24 && out.ExitCode != 137 {
				t.Errorf("endless loop ended with %d", out.ExitCode)
			}
			dir := t.TempDir()
			run(t, runner, shell(dir, "head -c 5000000 /dev/zero > big"))
			if info, err := os.Stat(filepath.Join(dir, "big")); err != nil || info.Size() > 1<<20 {
				t.Errorf("big file: %v, %v", info, err)
			}
			if out := run(t, runner, shell(t.TempDir(), "head -c 200000000 /dev/zero | tail > /dev/null")); out.ExitCode == 0 {
				t.Error("a program took more memory than it may")
			}
		})
	}
}

func TestConfinement(t *testing.T) {
	t.Parallel()
	runner := modes(t, sandbox.Limits{FileBytes: 1 << 20})["confined"]
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"a host file":            "cat " + outside,
		"the accounts":           "cat /etc/shadow",
		"the system is writable": "touch /usr/bin/owned || touch /bin/owned",
		"the root is writable":   "touch /etc/owned /owned && test -e " + filepath.Dir(outside),
		"a parent's environment": "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; done | grep GOCACHE",
		"foreign processes":      "test $(ls -d /proc/[0-9]* | wc -l) -gt 8",
		"another interface":      "tail -n +3 /proc/net/dev | grep -v lo:",
		"mounting":               "mount -t tmpfs none /mnt",
		"a full temporary area":  "head -c 3000000 /dev/zero | split -b 500000 - /tmp/x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out := run(t, runner, shell(t.TempDir(), script)); out.ExitCode == 0 {
				t.Errorf("possible from inside: %s", out.Stdout)
			}
		})
	}
}

func TestReadablePaths(t *testing.T) {
	t.Parallel()
	extra := t.TempDir()
	if err := os.WriteFile(filepath.Join(extra, "tool"), []byte("readable"), 0o600); err != nil {
		t.Fatal(err)
	}
	runner := sandbox.New(sandbox.Config{Readable: []string{extra}})
	out := run(t, runner, shell(t.TempDir(), fmt.Sprintf("cat %[1]s/tool && ! touch %[1]s/tool", extra)))
	if out.ExitCode != 0 || string(out.Stdout) != "readable" {
		t.Errorf("exit %d, %q, %q", out.ExitCode, out.Stdout, out.Stderr)
	}
}

func TestWithoutBubblewrap(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "bwrap")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho 'no permission' >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"absent": "/nonexistent/bwrap", "not permitted": broken} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			runner := sandbox.New(sandbox.Config{Bubblewrap: path, Scratch: t.TempDir()})
			if err := runner.Confinement(t.Context()); !errors.Is(err, sandbox.ErrUnconfined) {
				t.Errorf("confinement: %v", err)
			}
			if _, err := runner.Run(t.Context(), shell(dir, "touch ran")); err == nil {
				t.Error("the command ran")
			}
			if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
				t.Error("the command ran")
			}
		})
	}
	for mode, runner := range modes(t, sandbox.Limits{}) {
		if err := runner.Confinement(t.Context()); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestRefusedCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for mode, runner := range modes(t, sandbox.Limits{}) {
		for _, c := range []sandbox.Command{
			{Dir: dir},
			{Args: []string{"sh"}, Dir: dir},
			{Args: []string{"/bin/A=b"}, Dir: dir},
			{Args: []string{"/bin/true"}, Dir: "relative"},
			{Args: []string{"/bin/true"}, Dir: "/nonexistent/directory", OutputBytes: 4096},
		} {
			if _, err := runner.Run(t.Context(), c); err == nil {
				t.Errorf("%s ran %+v", mode, c)
			}
		}
		if _, err := runner.Run(ended, shell(dir, "true")); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v", mode, err)
		}
	}
}
