//go:build !linux

package systemtest

import "syscall"

// attributes rely on the child's own watch over its standard input.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
