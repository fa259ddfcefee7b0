package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// apply puts the limits on a process that is held at its gate; its descendants
// inherit them. A limit that is lower already is kept.
func (l Limits) apply(pid int) error {
	for _, limit := range []struct {
		name     string
		resource int
		value    uint64
	}{
		{"cpu", unix.RLIMIT_CPU, l.CPUSeconds},
		{"memory", unix.RLIMIT_AS, l.MemoryBytes},
		{"file size", unix.RLIMIT_FSIZE, l.FileBytes},
		{"open files", unix.RLIMIT_NOFILE, l.OpenFiles},
		{"processes", unix.RLIMIT_NPROC, l.Processes},
		{"core", unix.RLIMIT_CORE, 0},
	} {
		var now unix.Rlimit
		if err := unix.Prlimit(pid, limit.resource, nil, &now); err != nil {
			return fmt.Errorf("read the %s limit: %w", limit.name, err)
		}
		lowered := unix.Rlimit{Cur: min(limit.value, now.Cur), Max: min(limit.value, now.Max)}
		if err := unix.Prlimit(pid, limit.resource, &lowered, nil); err != nil {
			return fmt.Errorf("set the %s limit: %w", limit.name, err)
		}
	}
	return nil
}

// killMarked kills every process whose environment holds entry until there is none
// left, or for d at most: what leaves its process group keeps its environment.
func killMarked(entry string, d time.Duration) {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for len(marked(entry)) > 0 {
		for _, pid := range marked(entry) {
			// The handle pins the process; looking again tells whether it is still the
			// one that was found, and not a newcomer under the same number.
			if handle, err := os.FindProcess(pid); err == nil {
				if carries(pid, entry) {
					_ = handle.Kill()
				}
				_ = handle.Release()
			}
		}
		select {
		case <-deadline.C:
			return
		case <-tick.C:
		}
	}
}

func marked(entry string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	var pids []int
	for _, file := range files {
		if pid, err := strconv.Atoi(filepath.Base(file)); err == nil && carries(pid, entry) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func carries(pid int, entry string) bool {
	env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(env, []byte{0}) {
		if string(variable) == entry {
			return true
		}
	}
	return false
}
