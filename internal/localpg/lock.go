package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// pollInterval paces everything that the operating system gives no event for:
// a lock held elsewhere, a pid file, the end of a process that is not a child.
const pollInterval = 10 * time.Millisecond

// ErrInUse says that a living process owns the cluster.
var ErrInUse = errors.New("the cluster is in use by another process")

// FileLock is a lock between processes, kept by flock(2) on an open file. The
// kernel drops it when the process ends. It is not safe for concurrent use.
type FileLock struct{ file *os.File }

// OpenLock opens the lock file at path, creating it with mode 0600; it takes
// no lock yet.
func OpenLock(path string) (*FileLock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("localpg: lock: %w", err)
	}
	return &FileLock{file: file}, nil
}

// TryExclusive takes the lock alone if nobody holds it, and reports whether it did.
// A shared lock held before is converted; when that fails it may be lost.
func (l *FileLock) TryExclusive() (bool, error) { return l.try(syscall.LOCK_EX) }

// Exclusive takes the lock alone, waiting for it until ctx ends.
func (l *FileLock) Exclusive(ctx context.Context) error { return l.wait(ctx, syscall.LOCK_EX) }

// Shared takes the lock together with others, waiting for it until ctx ends.
func (l *FileLock) Shared(ctx context.Context) error { return l.wait(ctx, syscall.LOCK_SH) }

// Close drops the lock.
func (l *FileLock) Close() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("localpg: lock: %w", err)
	}
	return nil
}

func (l *FileLock) try(how int) (bool, error) {
	for {
		err := syscall.Flock(int(l.file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("localpg: lock %s: %w", l.file.Name(), err)
		}
	}
}

func (l *FileLock) wait(ctx context.Context, how int) error {
	return poll(ctx, func() (bool, error) { return l.try(how) })
}

// poll asks until the answer is yes, an error, or the end of ctx.
func poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
