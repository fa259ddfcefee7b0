package localpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Superuser is the name of the role that owns the cluster.
const Superuser = "postgres"

// Cluster is a running PostgreSQL server. Its methods are safe for concurrent use.
type Cluster struct {
	options  Options
	binaries Binaries
	account  account
	password string

	socketDir string
	port      int
	pid       int
	adopted   bool

	lock   *FileLock     // nil when shared
	exited chan struct{} // nil when shared; closed when the server is gone
}

// Start returns a running cluster: it creates one in an empty directory, starts
// the server, or adopts one that a crashed owner left behind. Errors wrap
// [ErrNotInstalled] and [ErrInUse]. The end of ctx, or of
// [Options.StartTimeout], abandons the start, not the running cluster.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, options.StartTimeout,
		fmt.Errorf("not ready after %s", options.StartTimeout))
	defer cancel()

	c := &Cluster{options: options}
	if options.BinDir == "" {
		c.binaries, err = Find(ctx)
	} else {
		c.binaries, err = newest(ctx, []string{options.BinDir})
	}
	if err != nil {
		return nil, err
	}
	if c.account, err = serverAccount(options.User); err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// start does the work under the lock, and drops the lock if it fails.
func (c *Cluster) start(ctx context.Context) error {
	lock, err := c.takeLock(ctx)
	if err != nil {
		return err
	}
	err = c.startLocked(ctx)
	if err == nil && !c.options.Shared {
		c.lock = lock
		return nil
	}
	return errors.Join(err, lock.Close())
}

func (c *Cluster) takeLock(ctx context.Context) (*FileLock, error) {
	// Traversal is open to all: each thing inside has a mode of its own.
	if err := os.MkdirAll(c.options.Dir, 0o711); err != nil { //nolint:gosec // see above
		return nil, fmt.Errorf("localpg: %w", err)
	}
	lock, err := OpenLock(c.options.lockFile())
	if err != nil {
		return nil, err
	}
	if err := c.awaitLock(ctx, lock); err != nil {
		return nil, errors.Join(fmt.Errorf("localpg: %s: %w", c.options.Dir, err), lock.Close())
	}
	return lock, nil
}

func (c *Cluster) awaitLock(ctx context.Context, lock *FileLock) error {
	if c.options.Shared {
		return lock.Exclusive(ctx)
	}
	taken, err := lock.TryExclusive()
	if err == nil && !taken {
		err = ErrInUse
	}
	return err
}

func (c *Cluster) startLocked(ctx context.Context) error {
	if err := c.create(ctx); err != nil {
		return err
	}
	password, err := os.ReadFile(c.options.passwordFile())
	if err != nil {
		return fmt.Errorf("localpg: password: %w", err)
	}
	c.password = strings.TrimSpace(string(password))

	running, err := c.adopt(ctx)
	if err != nil || running {
		return err
	}
	return c.launch(ctx)
}

// adopt looks at the server that the pid file names. It takes over one that
// answers, waits for one that comes or goes, and reports false when none is left.
func (c *Cluster) adopt(ctx context.Context) (running bool, err error) {
	data := c.options.dataDir()
	var last pidFile
	err = poll(ctx, func() (bool, error) {
		p, found, err := readPidFile(data)
		if err != nil {
			return false, err
		}
		if last = p; !found {
			return true, nil
		}
		if !serves(ctx, p.pid, data) {
			return true, removePidFile(data)
		}
		if !p.ready() {
			return false, nil
		}
		c.pid, c.port, c.socketDir = p.pid, p.port, p.socketDir
		running = c.answers(ctx)
		return running, nil
	})
	if err != nil {
		return false, fmt.Errorf("localpg: process %d serves %s but does not answer: %w", last.pid, data, err)
	}
	if running {
		c.adopted = true
		c.watchAdopted()
		c.options.Logger.InfoContext(ctx, "postgresql adopted", "pid", c.pid, "dir", c.options.Dir)
	}
	return running, nil
}

// answers asks the server behind the socket which data directory it serves.
func (c *Cluster) answers(ctx context.Context) bool {
	out, err := c.Exec(ctx, Superuser, "SHOW data_directory")
	if err != nil {
		return false
	}
	theirs, err := os.Stat(out)
	if err != nil {
		return false
	}
	ours, err := os.Stat(c.options.dataDir())
	return err == nil && os.SameFile(theirs, ours)
}

// StopOrphan stops the server of the cluster in dir, if one is running. It is for
// a cluster that nobody owns any more: it takes no lock.
func StopOrphan(ctx context.Context, dir string) error {
	options, err := Options{Dir: dir, Shared: true}.withDefaults()
	if err != nil {
		return err
	}
	p, found, err := readPidFile(options.dataDir())
	if err != nil || !found {
		return err
	}
	return (&Cluster{options: options, pid: p.pid}).Stop(ctx)
}

// Dir is the directory of the cluster, absolute.
func (c *Cluster) Dir() string { return c.options.Dir }

// Major is the release of PostgreSQL, for example 15.
func (c *Cluster) Major() int { return c.binaries.Major }

// Pid is the process identifier of the server.
func (c *Cluster) Pid() int { return c.pid }

// Adopted reports whether the server was running already.
func (c *Cluster) Adopted() bool { return c.adopted }

// URL is the address of a database for the superuser. It holds the password.
func (c *Cluster) URL(database string) string {
	return c.URLAs(Superuser, c.password, database)
}

// URLAs is the address of a database for another role; an empty password is
// left out.
func (c *Cluster) URLAs(role, password, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User(role),
		Path:     "/" + database,
		RawQuery: url.Values{"host": {c.socketDir}, "port": {strconv.Itoa(c.port)}}.Encode(),
	}
	if password != "" {
		u.User = url.UserPassword(role, password)
	}
	return u.String()
}

// Exited is closed when the server is gone, by [Cluster.Stop] or by itself. It
// is nil, and so never ready, for a shared cluster.
func (c *Cluster) Exited() <-chan struct{} { return c.exited }

// Stop ends the server and waits until it is gone: open transactions are rolled
// back and everything committed is flushed. When ctx ends first the server is
// cut off, which loses nothing either, and the error says so. A second Stop
// does nothing.
func (c *Cluster) Stop(ctx context.Context) error {
	err := c.end(ctx, syscall.SIGINT)
	if err != nil && ctx.Err() != nil {
		cut, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		err = errors.Join(fmt.Errorf("localpg: stop cut short: %w", err), c.end(cut, syscall.SIGQUIT))
	}
	if c.lock != nil {
		if closeErr := c.lock.Close(); !errors.Is(closeErr, os.ErrClosed) {
			err = errors.Join(err, closeErr)
		}
	}
	c.options.Logger.InfoContext(ctx, "postgresql stopped", "pid", c.pid, "dir", c.options.Dir)
	return err
}
