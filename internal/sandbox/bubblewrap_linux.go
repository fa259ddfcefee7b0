package sandbox

import (
	"os"
	"strconv"
)

// Where the private directories and the working directory are, seen from inside.
const (
	insideHome = "/home/toolbus"
	insideTmp  = "/tmp"
	// Workspace is where a confined command finds its working directory.
	Workspace = "/workspace"
)

// systemDirs are seen from inside at the same place; on merged systems most are
// symbolic links into /usr.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// systemFiles are the few files of /etc that programs need to start; the rest of it
// tells more about the host than a command has to know.
var systemFiles = []string{
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/localtime", "/etc/ssl/certs", "/etc/ca-certificates", "/etc/pki/tls/certs",
}

// bubblewrapArgs gives the whole command line, its own name first.
func (r *Runner) bubblewrapArgs(c Command) []string {
	args := []string{
		"bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--hostname", "sandbox", "--json-status-fd", "3", "--block-fd", "4",
	}
	for _, dir := range systemDirs {
		info, err := os.Lstat(dir)
		if err != nil {
			continue
		}
		if target, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", target, dir)
		} else if info.IsDir() {
			args = append(args, "--ro-bind", dir, dir)
		}
	}
	for _, file := range systemFiles {
		args = append(args, "--ro-bind-try", file, file)
	}
	size := strconv.FormatUint(r.config.Limits.FileBytes, 10)
	args = append(
		args,
		"--proc", "/proc", "--dev", "/dev",
		"--size", size, "--tmpfs", insideTmp,
		"--dir", "/home", "--size", size, "--tmpfs", insideHome,
	)
	for _, path := range r.config.Readable {
		args = append(args, "--ro-bind", path, path)
	}
	args = append(
		args,
		"--bind", c.Dir, Workspace, "--chdir", Workspace, "--",
		// bubblewrap adds PWD to the environment, which is to be exactly the tier-0 list.
		"/usr/bin/env", "-u", "PWD",
	)
	return append(args, c.Args...)
}
