package localpg

import (
	"context"
	"fmt"
	"os"
	"syscall"
)

// endWithParent asks the kernel to shut the server down, in the fast way, when
// the thread that started it ends; the caller keeps that thread for as long as
// the server runs.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }

// serves reports whether the process is a server of dataDir: a postmaster
// works in its data directory. A process identifier may have been given to
// another program since.
func serves(_ context.Context, pid int, dataDir string) bool {
	if !alive(pid) {
		return false
	}
	cwd, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return false
	}
	data, err := os.Stat(dataDir)
	return err == nil && os.SameFile(cwd, data)
}
