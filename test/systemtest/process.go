package systemtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/config"
	"github.com/toolbus/toolbus/internal/localpg/testcluster"
	"github.com/toolbus/toolbus/tool"
)

// variable holds, in a child process, what it is to run.
const variable = "TOOLBUS_TEST_PROCESS"

// Kits adjust the options of spawned processes, by name: the tools and probes
// that a package of tests adds cannot cross a process boundary otherwise.
type Kits map[string]func(*app.Options)

// order is what a child process is told.
type order struct {
	Database, NATS, User, Password, Dir, Sink, Kit string
	Config                                         config.Config
	Services                                       []app.Service
}

// Main runs the tests of a package or, in a process that a test spawned, the
// services that it was spawned for. It gives the exit code.
func Main(m interface{ Run() int }, kits Kits) int {
	if text, ok := os.LookupEnv(variable); ok {
		if err := serve(text, kits); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	return testcluster.Main(m)
}

// serve runs services until it is told to terminate or its parent is gone.
func serve(text string, kits Kits) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	options := app.Options{
		Config: o.Config, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Database: o.Database,
		Bus:     bus.Options{URL: o.NATS, User: o.User, Password: tool.NewSecret(o.Password), Name: "node"},
		DataDir: o.Dir, DemoSink: o.Sink, Tools: WriteTools(o.Sink), Topology: bustest.Small(), DrainTimeout: 5 * time.Second,
	}
	if o.Kit != "" {
		kits[o.Kit](&options)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent, however that ends
		os.Exit(1)
	}()
	n, err := app.Open(ctx, options)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	err = n.Run(ctx, func() { fmt.Println("ready") }, o.Services...)
	if closed := n.Close(context.WithoutCancel(ctx)); err == nil {
		err = closed
	}
	return err
}

// turns bounds the systems of child processes that run at once: each is a
// handful of programs, and a machine has few processors.
var turns = struct {
	sync.Mutex
	free  chan struct{}
	owner map[*System]int
}{free: make(chan struct{}, 4), owner: map[*System]int{}}

// takeTurn waits until the system may have processes; the last of them to end
// gives the turn back.
func (s *System) takeTurn(t testing.TB) {
	t.Helper()
	turns.Lock()
	turns.owner[s]++
	first := turns.owner[s] == 1
	turns.Unlock()
	if first {
		turns.free <- struct{}{}
	}
	t.Cleanup(func() {
		turns.Lock()
		turns.owner[s]--
		last := turns.owner[s] == 0
		if last {
			delete(turns.owner, s)
		}
		turns.Unlock()
		if last {
			<-turns.free
		}
	})
}

// Process is a child process that runs services of a system.
type Process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stderr *output
	ended  chan struct{}
}

// Spawn runs services in a process of their own until the test ends or the test
// ends them. It returns once they are ready.
func (s *System) Spawn(t testing.TB, services ...app.Service) *Process {
	t.Helper()
	return s.SpawnKit(t, "", services...)
}

// SpawnKit is [System.Spawn] with a kit of those that were handed to [Main].
func (s *System) SpawnKit(t testing.TB, kit string, services ...app.Service) *Process {
	t.Helper()
	s.takeTurn(t)
	text, err := json.Marshal(order{
		Database: s.Database, NATS: s.Account.Server.URL(), User: s.Account.User.Name, Password: s.Account.User.Password.Reveal(),
		Dir: s.Dir, Sink: s.Sink, Kit: kit, Config: s.Config, Services: services,
	})
	if err != nil {
		t.Fatalf("order: %v", err)
	}
	p := &Process{t: t, stderr: &output{}, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0]) //nolint:gosec // this program
	p.cmd.Env = append(os.Environ(), variable+"="+string(text))
	p.cmd.Stderr = p.stderr
	p.cmd.SysProcAttr = attributes()
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatalf("stdin: %v", err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("stdout: %v", err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	ready := make(chan struct{})
	go func() {
		defer close(p.ended)
		if line, _ := bufio.NewReader(stdout).ReadString('\n'); line == "ready\n" {
			close(ready)
		}
		_ = p.cmd.Wait() // how it ended is in its state
	}()
	t.Cleanup(func() {
		p.Kill()
		_ = stdin.Close()
		if t.Failed() {
			t.Logf("process %v said:\n%s", services, p.stderr)
		}
	})
	select {
	case <-ready:
	case <-p.ended:
		t.Fatalf("process ended: %s", p.stderr)
	case <-time.After(time.Minute):
		t.Fatalf("process is not ready: %s", p.stderr)
	}
	return p
}

// Kill ends the process at once, without a word, and waits for its end. A
// process that has ended is left alone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// Stop suspends the process: it keeps its connections and does nothing.
func (p *Process) Stop() { p.signal(syscall.SIGSTOP) }

// Cont lets a stopped process go on.
func (p *Process) Cont() { p.signal(syscall.SIGCONT) }

// Terminate asks the process to end in order and waits until it has.
func (p *Process) Terminate() {
	p.signal(syscall.SIGTERM)
	p.Wait()
}

// Wait waits for the end of the process.
func (p *Process) Wait() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.t.Errorf("process does not end: %s", p.stderr)
	}
}

// Output gives what the process has logged so far.
func (p *Process) Output() string { return p.stderr.String() }

func (p *Process) signal(s syscall.Signal) {
	select {
	case <-p.ended:
	default:
		_ = p.cmd.Process.Signal(s) // it may end just now
	}
}

// output collects what a process writes. Safe for concurrent use.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String gives what was written so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
