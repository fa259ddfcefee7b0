package localpg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// pidFile is what a running server writes into its data directory.
type pidFile struct {
	pid       int
	port      int
	socketDir string
	status    string
}

func (p pidFile) ready() bool { return p.status == "ready" }

// readPidFile reads postmaster.pid; ok is false when there is none. A file
// that is still being written has the fields that are there so far.
func readPidFile(dataDir string) (p pidFile, ok bool, err error) {
	raw, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return pidFile{}, false, nil
	}
	if err != nil {
		return pidFile{}, false, fmt.Errorf("localpg: pid file: %w", err)
	}
	return parsePidFile(string(raw)), true, nil
}

// parsePidFile knows the eight lines: pid, data directory, start time, port,
// socket directory, address, shared memory, status.
func parsePidFile(raw string) pidFile {
	var p pidFile
	for i, line := range strings.Split(raw, "\n") {
		line = strings.TrimSpace(line)
		switch i {
		case 0:
			p.pid, _ = strconv.Atoi(line) // an unfinished file has no process yet
		case 3:
			p.port, _ = strconv.Atoi(line)
		case 4:
			p.socketDir = line
		case 7:
			p.status = line
		}
	}
	return p
}

// removePidFile removes the pid file of a server that is known to be gone.
func removePidFile(dataDir string) error {
	err := os.Remove(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("localpg: stale pid file: %w", err)
	}
	return nil
}

// alive reports whether a process with this id exists.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
