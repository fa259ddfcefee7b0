//go:build !linux

package localpg

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// endWithParent can do nothing here: the server stays behind when its owner
// crashes, and the next start adopts it.
func endWithParent(*syscall.SysProcAttr) {}

// serves reports whether the process is a server of dataDir, by its command
// line. A process identifier may have been given to another program since.
func serves(ctx context.Context, pid int, dataDir string) bool {
	if !alive(pid) {
		return false
	}
	out, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), "-D "+dataDir+" ")
}
