// Package localpg runs a private PostgreSQL server out of the binaries that
// are installed on the machine: for a single-process deployment that has no
// database of its own, and for tests.
//
// A [Cluster] lives in one directory:
//
//	data/          the PostgreSQL data directory, owned by the account the server runs as
//	password       the superuser's random password, readable by its creator only
//	lock           held with flock(2) by the process that owns the cluster
//	postgres.log   what the server of the present start printed
//
// # Ownership
//
// One process owns a cluster and holds the lock until [Cluster.Stop]; a second
// start of the same directory is refused with [ErrInUse]. The kernel drops the
// lock with the process, so a crashed owner never blocks its successor. With
// [Options.Shared] the lock guards the start alone, and every later start joins
// the running server.
//
// # After a crash of the owner
//
// On Linux the server is told to shut down when its owner dies; elsewhere it
// stays behind as an orphan. The next start therefore looks at what the pid
// file names. A server that answers on its socket and serves this very data
// directory is adopted, one that is going down is waited for, and a pid file
// whose process is gone, or has become something else, is stale: it is removed
// and PostgreSQL replays its log. Nothing that was committed is lost on any of
// these ways, and no process that does not serve the directory is signalled.
//
// # Accounts
//
// PostgreSQL refuses to run as root. A process that is root runs it as the
// account postgres, or nobody where that does not exist, and gives it a
// data directory and a socket directory of mode 0700.
package localpg
