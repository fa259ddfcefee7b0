// Package testcluster gives tests a PostgreSQL server and a database each.
//
// All test processes of a run share one server. With TOOLBUS_TEST_CLUSTER set to
// a directory the server lives there and stays up until whoever made the
// directory ends it, which is what the Makefile does. Without it the processes
// of one user share a server below the system's temporary folder; the process
// that releases it last stops it and removes the directory.
//
// The server runs without fsync: killing it or any client loses nothing that
// was committed, losing power does. Databases are cloned from templates, which
// takes some tens of milliseconds.
//
// A package that needs the server releases it in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(testcluster.Main(m)) }
package testcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/toolbus/toolbus/internal/localpg"
)

// Variable names the environment variable that holds the directory of a run's cluster.
const Variable = "TOOLBUS_TEST_CLUSTER"

const (
	maxConnections = 400
	releaseTimeout = 30 * time.Second
)

// Cluster is a running server shared with other test processes. Its methods
// are safe for concurrent use.
type Cluster struct {
	server *localpg.Cluster
	dir    string
	users  *localpg.FileLock // nil when the directory was given

	// building makes one goroutine of this process at a time use the template
	// lock; between processes the file lock does.
	building sync.Mutex
	built    map[string]bool
}

// The server belongs to the process, as the variable does that names it:
// packages of tests have nothing else in common to hang it on.
var shared struct {
	sync.Mutex
	cluster *Cluster
}

// Shared returns the cluster of this run, starting it if no other process has.
// The error of a machine without PostgreSQL names the command that installs it.
func Shared(ctx context.Context) (*Cluster, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		c, err := open(ctx, os.Getenv(Variable))
		if err != nil {
			return nil, fmt.Errorf("testcluster: %w (or run: make setup)", err)
		}
		shared.cluster = c
	}
	return shared.cluster, nil
}

// Main runs the tests of a package and releases the cluster; it returns the
// exit code. A failure to release makes a passed run fail.
func Main(m interface{ Run() int }) int {
	code := m.Run()
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	if err := Release(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Release gives the cluster back, if this process took it. The last process to
// do so stops a server that no directory was given for.
func Release(ctx context.Context) error {
	shared.Lock()
	defer shared.Unlock()
	c := shared.cluster
	if c == nil {
		return nil
	}
	shared.cluster = nil
	if err := c.close(ctx); err != nil {
		return fmt.Errorf("testcluster: release: %w", err)
	}
	return nil
}

func open(ctx context.Context, dir string) (*Cluster, error) {
	if dir != "" {
		server, err := start(ctx, dir)
		if err != nil {
			return nil, err
		}
		return &Cluster{server: server, dir: dir, built: map[string]bool{}}, nil
	}
	base := filepath.Join(os.TempDir(), "toolbus-test-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(base, 0o711); err != nil { //nolint:gosec // the server's account passes through
		return nil, err
	}
	return join(ctx, base)
}

// join counts this process among the users of the cluster in base. The door is
// held for as long as the count and the server may disagree.
func join(ctx context.Context, base string) (c *Cluster, err error) {
	door, err := localpg.OpenLock(filepath.Join(base, "door"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, door.Close()) }()
	if err := door.Exclusive(ctx); err != nil {
		return nil, err
	}
	users, err := localpg.OpenLock(filepath.Join(base, "users"))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(base, "cluster")
	server, err := joinServer(ctx, users, dir)
	if err != nil {
		return nil, errors.Join(err, users.Close())
	}
	return &Cluster{server: server, dir: dir, users: users, built: map[string]bool{}}, nil
}

func joinServer(ctx context.Context, users *localpg.FileLock, dir string) (*localpg.Cluster, error) {
	alone, err := users.TryExclusive()
	if err != nil {
		return nil, err
	}
	if alone {
		// Whatever is left was left by a crash; without fsync it is not to be trusted.
		if err := wipe(ctx, dir); err != nil {
			return nil, err
		}
	}
	server, err := start(ctx, dir)
	if err != nil {
		return nil, err
	}
	return server, users.Shared(ctx)
}

// wipe stops a server that crashed tests left running, and removes its directory.
func wipe(ctx context.Context, dir string) error {
	if err := localpg.StopOrphan(ctx, dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func start(ctx context.Context, dir string) (*localpg.Cluster, error) {
	return localpg.Start(ctx, localpg.Options{
		Dir:            dir,
		MaxConnections: maxConnections,
		NoFSync:        true,
		TrustSocket:    true,
		Shared:         true,
		Settings: map[string]string{
			"autovacuum":      "off", // hundreds of databases that live for a second
			"shared_buffers":  "128MB",
			"max_wal_size":    "4GB", // no checkpoint in the middle of a run
			"wal_level":       "minimal",
			"max_wal_senders": "0",
		},
	})
}

func (c *Cluster) close(ctx context.Context) (err error) {
	if c.users == nil {
		return nil
	}
	defer func() { err = errors.Join(err, c.users.Close()) }()
	door, err := localpg.OpenLock(filepath.Join(filepath.Dir(c.dir), "door"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, door.Close()) }()
	if err := door.Exclusive(ctx); err != nil {
		return err
	}
	last, err := c.users.TryExclusive()
	if err != nil || !last {
		return err
	}
	if err := c.server.Stop(ctx); err != nil {
		return err
	}
	return os.RemoveAll(c.dir)
}
