package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// stopGrace is how long a server may take that was cut off.
const stopGrace = 10 * time.Second

// errLeftovers says that processes of a killed server still hold its shared memory.
var errLeftovers = errors.New("processes of an earlier server are still ending")

// launch starts the server and waits until it accepts connections.
func (c *Cluster) launch(ctx context.Context) error {
	socketDir, err := c.makeSocketDir()
	if err != nil {
		return err
	}
	c.socketDir, c.port = socketDir, c.options.port()
	for {
		err := c.launchOnce(ctx)
		if err == nil {
			c.options.Logger.InfoContext(ctx, "postgresql started",
				"pid", c.pid, "dir", c.options.Dir, "release", c.binaries.Major)
			return nil
		}
		if !errors.Is(err, errLeftovers) || ctx.Err() != nil {
			return err
		}
	}
}

func (c *Cluster) launchOnce(ctx context.Context) error {
	log, err := os.OpenFile(c.options.logFile(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("localpg: log: %w", err)
	}
	defer func() { _ = log.Close() }() // the server has a descriptor of its own

	server := c.spawn
	if c.options.Shared {
		server = c.spawnDetached
	}
	gone, err := server(ctx, log)
	if err != nil {
		return fmt.Errorf("localpg: start PostgreSQL: %w", err)
	}
	if err := c.awaitReady(ctx, gone, log); err != nil {
		if !gone() {
			_ = syscall.Kill(c.pid, syscall.SIGQUIT) // it may end by itself meanwhile
		}
		cut, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		return errors.Join(err, poll(cut, func() (bool, error) { return gone(), nil }))
	}
	return nil
}

// spawn starts the server as a child, on a thread that lives as long as the
// child does, since the kernel ties "end with the parent" to the starting
// thread. gone reports whether the server has ended.
func (c *Cluster) spawn(ctx context.Context, log *os.File) (gone func() bool, err error) {
	// The end of a start's context must not kill a server.
	cmd := c.command(context.WithoutCancel(ctx), c.binaries.path("postgres"), c.options.serverArgs(c.socketDir)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr.Setsid = true // a terminal's Ctrl-C is for the owner, who stops it in order
	endWithParent(cmd.SysProcAttr)

	exited := make(chan struct{})
	started := make(chan error, 1)
	go func() {
		defer close(exited)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	c.pid, c.exited = cmd.Process.Pid, exited
	return func() bool {
		select {
		case <-exited:
			return true
		default:
			return false
		}
	}, nil
}

// spawnDetached starts the server through a shell that leaves it behind: it is
// nobody's child, so nobody has to wait for it.
func (c *Cluster) spawnDetached(ctx context.Context, log *os.File) (gone func() bool, err error) {
	const script = `"$@" </dev/null >&2 & echo $!`
	args := append([]string{"-c", script, "sh", c.binaries.path("postgres")}, c.options.serverArgs(c.socketDir)...)
	cmd := c.command(ctx, "/bin/sh", args...)
	cmd.Stderr = log
	cmd.SysProcAttr.Setsid = true
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	if c.pid, err = strconv.Atoi(string(bytes.TrimSpace(out))); err != nil {
		return nil, err
	}
	return func() bool { return !alive(c.pid) }, nil
}

func (c *Cluster) awaitReady(ctx context.Context, gone func() bool, log io.ReaderAt) error {
	err := poll(ctx, func() (bool, error) {
		if gone() {
			return false, startFailure(log)
		}
		p, found, err := readPidFile(c.options.dataDir())
		return found && p.pid == c.pid && p.ready(), err
	})
	if err != nil {
		return fmt.Errorf("localpg: start PostgreSQL: %w", err)
	}
	return nil
}

// startFailure makes an error of what the server printed before it gave up.
func startFailure(log io.ReaderAt) error {
	const enough = 4096
	text, err := io.ReadAll(io.NewSectionReader(log, 0, enough))
	if err != nil {
		return fmt.Errorf("ended at once; its log: %w", err)
	}
	text = bytes.TrimSpace(text)
	if bytes.Contains(text, []byte("pre-existing shared memory block")) {
		return errLeftovers
	}
	return fmt.Errorf("ended at once, saying: %s", text)
}

// command runs a program of the installation as the server's account, with an
// environment of its own: PGDATA, PGOPTIONS and the like must not reach it.
func (c *Cluster) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + c.binaries.Dir + ":/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.account.credential}
	return cmd
}

// watchAdopted closes exited when a server that is not a child is gone.
func (c *Cluster) watchAdopted() {
	if c.options.Shared {
		return
	}
	exited := make(chan struct{})
	c.exited = exited
	go func() {
		defer close(exited)
		ticker := time.NewTicker(pollInterval)
		defer ticker.Stop()
		for range ticker.C {
			if !alive(c.pid) {
				return
			}
		}
	}()
}

// end signals the server and waits until it is gone.
func (c *Cluster) end(ctx context.Context, signal syscall.Signal) error {
	if !serves(ctx, c.pid, c.options.dataDir()) {
		return c.awaitGone(ctx)
	}
	if err := syscall.Kill(c.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("localpg: stop PostgreSQL: %w", err)
	}
	return c.awaitGone(ctx)
}

func (c *Cluster) awaitGone(ctx context.Context) error {
	if c.exited != nil {
		select {
		case <-c.exited:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return poll(ctx, func() (bool, error) { return !serves(ctx, c.pid, c.options.dataDir()), nil })
}
