package systemtest

import "syscall"

// attributes make a child process end with its parent, even while it is stopped.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
