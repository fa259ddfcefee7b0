package sandbox

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process supervises one child from its start to the end of its last descendant.
type process struct {
	path   string
	args   []string // the first is the name
	env    []string
	dir    string
	extra  []*os.File // inherited from descriptor 3 on; the gate comes after
	limits Limits
	// inner finds the process that the limits apply to and whose death ends the rest;
	// nil means the child itself.
	inner func() (int, error)
	// leftover is the environment entry that marks descendants outside the process
	// group; empty where the kernel ends them all.
	leftover string
}

// started is what the starting thread reports.
type started struct {
	child *os.Process
	err   error
}

// run starts the child, lets it pass its gate once its limits stand, and waits for
// the end of everything.
func (p *process) run(ctx context.Context, c Command) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, fmt.Errorf("command not started: %w", err)
	}
	pipes, err := openPipes()
	if err != nil {
		return Outcome{}, err
	}
	defer pipes.close()

	begin := time.Now()
	first, ended := make(chan started, 1), make(chan *os.ProcessState, 1)
	go p.keep(pipes, first, ended)
	s := <-first
	if s.err != nil {
		return Outcome{}, fmt.Errorf("start command: %w", s.err)
	}
	pipes.closeChildEnds()
	output := newCapture(c.OutputBytes)
	readers := output.follow(pipes, c.Stdin)

	target, setupErr := p.prepare(s.child)
	if setupErr == nil {
		_, setupErr = pipes.gateWrite.WriteString("\n")
	}
	var state *os.ProcessState
	select {
	case state = <-ended:
	case <-ctx.Done():
	case <-output.exceeded:
	case <-failed(setupErr):
	}
	if state == nil {
		state = p.stop(s.child, target, ended)
	}
	pipes.expire(grace) // nothing holds the far ends any more, unless it escaped
	readers.Wait()

	out := Outcome{ExitCode: exitCode(state), Duration: time.Since(begin)}
	out.Stdout, out.Stderr, out.Exceeded = output.result()
	switch {
	case ctx.Err() != nil:
		return out, fmt.Errorf("command stopped: %w", ctx.Err())
	case setupErr != nil:
		return out, fmt.Errorf("set up command: %w: %s", setupErr, firstLine(out.Stderr))
	}
	return out, nil
}

// failed gives a channel that is ready exactly when there is an error.
func failed(err error) <-chan struct{} {
	if err == nil {
		return nil
	}
	ready := make(chan struct{})
	close(ready)
	return ready
}

// keep starts the child and stays on its thread until the child has ended: the
// kernel would take the end of the thread for the death of the parent.
func (p *process) keep(pipes *pipes, first chan<- started, ended chan<- *os.ProcessState) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Descriptors that this process was itself started with may lack the mark that
	// keeps them from its children.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	files := append([]*os.File{pipes.stdinRead, pipes.stdoutWrite, pipes.stderrWrite}, p.extra...)
	child, err := os.StartProcess(p.path, p.args, &os.ProcAttr{
		Dir: p.dir, Env: p.env, Files: append(files, pipes.gateRead),
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	first <- started{child: child, err: err}
	if err != nil {
		return
	}
	p.awaitEnd(child)
	state, err := child.Wait()
	if err != nil {
		state = &os.ProcessState{}
	}
	ended <- state
}

// awaitEnd returns once the child has ended and nothing of its group is left. The
// child is not reaped before that, so that its number cannot be anybody else's.
func (p *process) awaitEnd(child *os.Process) {
	for {
		err := unix.Waitid(unix.P_PID, child.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	_ = unix.Kill(-child.Pid, unix.SIGKILL)
	if p.leftover != "" {
		killMarked(p.leftover, grace)
	}
}

// prepare finds the inner process and puts the limits on it.
func (p *process) prepare(child *os.Process) (*os.Process, error) {
	target := child
	if p.inner != nil {
		pid, err := p.inner()
		if err != nil {
			return nil, err
		}
		if target, err = os.FindProcess(pid); err != nil {
			return nil, fmt.Errorf("find the first process inside: %w", err)
		}
	}
	return target, p.limits.apply(target.Pid)
}

// stop ends the child through the inner process, whose end the child outlives only
// to report it, and by force if that does not help.
func (p *process) stop(child, target *os.Process, ended <-chan *os.ProcessState) *os.ProcessState {
	if target != nil {
		_ = target.Kill()
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case state := <-ended:
			return state
		case <-timer.C:
		}
	}
	_ = child.Kill()
	return <-ended
}

// pipes are the ends of everything between this process and the child.
type pipes struct {
	stdinRead, stdoutWrite, stderrWrite, gateRead *os.File // the child's
	stdinWrite, stdoutRead, stderrRead, gateWrite *os.File
}

func openPipes() (*pipes, error) {
	p := &pipes{}
	for _, pair := range []struct{ read, write **os.File }{
		{&p.stdinRead, &p.stdinWrite},
		{&p.stdoutRead, &p.stdoutWrite},
		{&p.stderrRead, &p.stderrWrite},
		{&p.gateRead, &p.gateWrite},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, fmt.Errorf("open pipes: %w", err)
		}
		*pair.read, *pair.write = r, w
	}
	return p, nil
}

func (p *pipes) closeChildEnds() {
	closeAll(p.stdinRead, p.stdoutWrite, p.stderrWrite, p.gateRead)
}

func (p *pipes) close() {
	p.closeChildEnds()
	closeAll(p.stdinWrite, p.stdoutRead, p.stderrRead, p.gateWrite)
}

// expire bounds what remains to be read and written.
func (p *pipes) expire(d time.Duration) {
	deadline := time.Now().Add(d)
	_ = p.stdinWrite.SetDeadline(deadline)
	_ = p.stdoutRead.SetDeadline(deadline)
	_ = p.stderrRead.SetDeadline(deadline)
}

// capture collects both output streams under one bound.
type capture struct {
	mu             sync.Mutex
	left           int64
	over           bool
	stdout, stderr []byte
	exceeded       chan struct{}
}

func newCapture(limit int64) *capture {
	return &capture{left: limit, exceeded: make(chan struct{})}
}

// follow copies in both directions until the far ends are closed or expire.
func (c *capture) follow(p *pipes, stdin []byte) *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Go(func() { c.read(p.stdoutRead, &c.stdout) })
	wg.Go(func() { c.read(p.stderrRead, &c.stderr) })
	wg.Go(func() {
		_, _ = p.stdinWrite.Write(stdin) // a command need not read its input
		_ = p.stdinWrite.Close()
	})
	return &wg
}

// read appends what from gives to into, and goes on reading beyond the bound so that
// the command is ended by us and not by a full pipe.
func (c *capture) read(from *os.File, into *[]byte) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		c.add(buffer[:n], into)
		if err != nil {
			return
		}
	}
}

func (c *capture) add(b []byte, into *[]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fits := min(int64(len(b)), c.left)
	*into = append(*into, b[:fits]...)
	c.left -= fits
	if fits < int64(len(b)) && !c.over {
		c.over = true
		close(c.exceeded)
	}
}

func (c *capture) result() (stdout, stderr []byte, exceeded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stdout, c.stderr, c.over
}
