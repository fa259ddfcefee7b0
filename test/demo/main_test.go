// Package demo drives the command line from outside: whole processes that are
// interrupted and killed, the scenario of `toolbus demo`, and the exit code of
// every kind of use.
package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolbus/toolbus/cmd/toolbus/cli"
)

// asCommand makes this test binary toolbus itself, for children.
const asCommand = "TOOLBUS_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		cli.Main(cli.Build{Version: "1.2.3"})
	}
	os.Exit(m.Run())
}

// environment is that of the machine, without any setting of toolbus.
func environment(extra ...string) []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "TOOLBUS_") {
			env = append(env, entry)
		}
	}
	return append(env, extra...)
}

// program is toolbus as a process.
type program struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr *lockedBuffer
	exited chan struct{}
	code   int
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts toolbus. Whatever becomes of the test, the process ends with it.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	return startWith(t, nil, args...)
}

func startWith(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{stderr: new(lockedBuffer), exited: make(chan struct{})}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), self, args...)
	p.cmd.Env, p.cmd.Stderr = environment(append(env, asCommand+"=1")...), p.stderr
	// A pipe of the system: a process whose output nobody reads ends all the same.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout, p.cmd.Stdout = bufio.NewReader(read), write
	if err := errors.Join(p.cmd.Start(), write.Close()); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the code says it
		p.code = p.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = read.Close()
		<-p.exited
	})
	return p
}

// signal sends a signal and waits until the process is gone.
func (p *program) signal(t *testing.T, s syscall.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	return p.wait(t)
}

// wait gives the exit code of a process that ends by itself.
func (p *program) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.code
	case <-time.After(2 * time.Minute):
		t.Fatalf("process does not end:\n%s", p.stderr)
		return 0
	}
}

// dev is what `toolbus dev --json` says once it is ready.
type dev struct {
	*program
	NATSURL      string `json:"nats_url"`
	NATSUser     string `json:"nats_user"`
	NATSPassword string `json:"nats_password"`
	DatabaseURL  string `json:"database_url"`
	HTTPURL      string `json:"http_url"`
	HTTPToken    string `json:"http_token"`
	Data         string `json:"data"`
}

// quick makes recovery act while a test watches.
var quick = []string{"TOOLBUS_LEASE_SECONDS=2", "TOOLBUS_RECOVERY_SWEEP_SECONDS=0.2", "TOOLBUS_DISPATCH_RETRY_SECONDS=1"}

func startDev(t *testing.T, data string) *dev {
	t.Helper()
	d := &dev{program: startWith(t, quick, "dev", "--data", data, "--http", "127.0.0.1:0", "--json")}
	line, err := d.stdout.ReadBytes('\n')
	if err != nil {
		t.Fatalf("dev is not ready: %v\n%s", err, d.stderr)
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(d); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return d
}

// answer is what a command left behind.
type answer struct {
	code     int
	out, err string
}

// run runs a command in this process, on nothing but its arguments.
func run(t *testing.T, args ...string) answer {
	t.Helper()
	return runWith(t, "", nil, args...)
}

func runWith(t *testing.T, stdin string, env []string, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, problems bytes.Buffer
	code := cli.Run(ctx, cli.Build{Version: "1.2.3"}, cli.Process{
		Args: args, Env: env, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &problems,
	})
	return answer{code: code, out: out.String(), err: problems.String()}
}

// list runs a listing with --json.
func list[T any](t *testing.T, args ...string) []T {
	t.Helper()
	a := run(t, append(args, "--json")...)
	var all []T
	if err := json.Unmarshal([]byte(a.out), &all); a.code != 0 || err != nil {
		t.Fatalf("%v: exit code %d, %v\n%s%s", args, a.code, err, a.out, a.err)
	}
	return all
}

// dataDir gives a directory that the account of PostgreSQL may pass through.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "toolbus-test-dev-") //nolint:usetesting // parents of t.TempDir are closed to other accounts
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

// nothingLeft fails the test when a process still has to do with a directory.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	for _, process := range left(t, dir) {
		t.Errorf("still running: %s", process)
	}
}

// left lists the processes that have to do with a directory.
func left(t *testing.T, dir string) (processes []string) {
	t.Helper()
	all, err := exec.CommandContext(t.Context(), "ps", "-A", "-o", "pid=,args=").Output()
	if err != nil {
		t.Fatalf("list processes: %v", err)
	}
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, dir) {
			processes = append(processes, strings.TrimSpace(line))
		}
	}
	return processes
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}
