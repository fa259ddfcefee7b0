package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is what processes have used and hold, as Linux counts it; zero elsewhere.
type usage struct {
	cpu      time.Duration
	resident int64 // bytes
}

// tick is the unit of processor time in /proc, 1/100 s on every architecture that
// Go knows.
const tick = 10 * time.Millisecond

// processUsage reads one process.
func processUsage(pid int) usage {
	fields := statFields(pid)
	if len(fields) < 22 {
		return usage{}
	}
	return usage{cpu: ticks(fields[11]) + ticks(fields[12]), resident: proportional(pid)}
}

// familyUsage reads a process and its children, the ended ones included.
func familyUsage(pid int) usage {
	u := processUsage(pid)
	if fields := statFields(pid); len(fields) > 14 {
		u.cpu += ticks(fields[13]) + ticks(fields[14])
	}
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return u
	}
	for _, entry := range entries {
		child, err := strconv.Atoi(filepath.Base(entry))
		if fields := statFields(child); err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			c := processUsage(child)
			u.cpu += c.cpu
			u.resident += c.resident
		}
	}
	return u
}

// statFields gives the fields of /proc/<pid>/stat from the state on.
func statFields(pid int) []string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
}

func ticks(s string) time.Duration {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * tick
}

// proportional gives the resident bytes of a process; pages shared by several
// count in each by its part.
func proportional(pid int) int64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}
