// Package sandbox runs one foreign command so that it sees little, uses little and
// leaves nothing running behind.
//
// # Confinement
//
// With bubblewrap the command lives in namespaces of its own: of the file system it
// sees the system directories (read-only), its working directory (writable, at
// /workspace) and private temporary file systems for HOME and TMPDIR; there is no
// network, not even a loopback that leads anywhere; it holds no capability; and it
// sees no process but its own. Without bubblewrap a command is refused, unless
// [Config.AllowUnconfined] says that the operator takes the risk: then environment,
// limits and cleaning up are the same, and nothing else is.
//
// # Environment
//
// The environment of a child is constructed, never inherited: [Environment] is the
// one list, for this package and for every other that starts a child process.
//
// # Limits
//
// Resource limits are set by prlimit(2) on the first process inside while it is
// still held at a gate: bubblewrap blocks on a pipe before it runs the command, and
// an unconfined command is held by a shell that waits to be released. So no
// instruction of the command runs without its limits, and no shell dialect of
// "ulimit" is relied upon. Limits are per process except the number of processes,
// which the kernel counts per user and namespace and does not apply to root: run
// the service as an ordinary user where that limit matters.
//
// # The end
//
// A run ends with the command, with its context, or when its output passes the bound.
// In each case every descendant is gone before [Runner.Run] returns. Confined, the
// first process of the process namespace is killed and the kernel kills and reaps the
// rest before the supervisor sees it end. Unconfined, the process group is killed, and
// then whatever left the group but still carries the run's private TMPDIR in its
// environment. When this process itself dies, the kernel kills the command
// (PR_SET_PDEATHSIG, bound to the starting thread, which is therefore kept).
package sandbox
