package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a service in a process of its own: this program, run again.
type child struct {
	name   string
	sink   string
	cmd    *exec.Cmd
	hold   io.Closer
	log    string
	exited chan struct{} // closed when the process is gone and reaped
	once   sync.Once
}

const (
	childStart = 30 * time.Second
	childStop  = 20 * time.Second
)

// startChild starts a service and waits until it is ready. It ends when its
// standard input does, so that none outlives a parent that was killed.
func startChild(ctx context.Context, dir, service string, number int, env []string) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("own program: %w", err)
	}
	c := &child{name: fmt.Sprintf("%s-%d", service, number), exited: make(chan struct{})}
	c.sink, c.log = filepath.Join(dir, c.name+".effects"), filepath.Join(dir, c.name+".log")
	log, err := os.Create(c.log)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	defer func() { _ = log.Close() }()
	c.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, service, "--json", "--with-stdin", "--demo-sink", c.sink)
	c.cmd.Env, c.cmd.Stderr = env, log
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the parent, which stops it in order
	if c.hold, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return c, c.awaitReady(ctx, out)
}

func (c *child) awaitReady(ctx context.Context, out io.Reader) error {
	ready := make(chan struct{})
	go func() {
		defer close(c.exited)
		lines := bufio.NewScanner(out)
		if lines.Scan() {
			close(ready)
		}
		_, _ = io.Copy(io.Discard, out)
		_ = c.cmd.Wait() // how it ended is told by its log
	}()
	timer := time.NewTimer(childStart)
	defer timer.Stop()
	select {
	case <-ready:
		return nil
	case <-c.exited:
		return c.failed(errors.New("ended before it was ready"))
	case <-timer.C:
		return errors.Join(c.failed(errors.New("is not ready")), c.kill())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), c.kill())
	}
}

// failed adds the last line of the child's log.
func (c *child) failed(err error) error {
	data, _ := os.ReadFile(c.log)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return fmt.Errorf("%s %w: %s", c.name, err, lines[len(lines)-1])
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill ends the process as a power cut would, and waits until it is gone.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	<-c.exited
	return nil
}

// stop asks the process to end, and insists after a while.
func (c *child) stop() error {
	c.once.Do(func() { _ = c.hold.Close() })
	timer := time.NewTimer(childStop)
	defer timer.Stop()
	select {
	case <-c.exited:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not stop in time", c.name), c.kill())
	}
}
