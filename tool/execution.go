package tool

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"
)

// Principal is on whose authority a run acts.
type Principal struct {
	ID string `json:"id"`
	// Interactive says that somebody is there to approve; without it a required
	// approval is a denial (contract section 5, row unattended).
	Interactive bool `json:"interactive"`
}

// Execution is all a tool is allowed to know and reach while it runs
// (specification, "ToolExecutionContext"). There is no database, no policy, no
// registry and no other tool on it. It is valid until Execute returns and is
// safe for concurrent use.
type Execution struct {
	InvocationID ID
	CallID       string
	RunID        ID
	SessionID    ID
	TenantID     string
	Principal    Principal
	StepNumber   int
	// AttemptNumber is the fencing token: 1 for the first claim.
	AttemptNumber int
	// IdempotencyKey is 64 lowercase hex characters, the same for every attempt.
	// Tools that call a service with idempotency keys pass it verbatim.
	IdempotencyKey string
	// DeadlineAt is absolute; Timeout is what is left of it as the call starts.
	DeadlineAt time.Time
	Timeout    time.Duration
	// MaximumOutputBytes is [Spec.MaximumOutputBytes].
	MaximumOutputBytes int
	Target             Target
	// Workspace is the run's own directory; nil when the tool declares no
	// workspace effect and is no sandbox tool.
	Workspace   Workspace
	Artifacts   ArtifactWriter
	Credentials CredentialResolver
	// MarkEffectSent commits the effect watermark. The executor has called it
	// before Execute for every tool whose side effect is not none; calling it
	// again does nothing. An error means that the call no longer belongs to this
	// worker or lost its authority: stop, touch nothing.
	MarkEffectSent func(ctx context.Context) error
}

// HardCeiling is the number of bytes that are read from a source at most: four
// times the maximum output.
func (e *Execution) HardCeiling() int64 { return 4 * int64(e.MaximumOutputBytes) }

// Bounded wraps a source of output with the hard ceiling. Reads beyond it
// return [ErrOutputTooLarge]; what was read before stays good, and a tool
// returns it with a [FailOutputTooLarge] failure.
func (e *Execution) Bounded(r io.Reader) io.Reader {
	return &boundedReader{r: r, left: e.HardCeiling()}
}

// ErrOutputTooLarge says that a source had more to give than the hard ceiling.
var ErrOutputTooLarge = errors.New("output exceeds the hard ceiling")

type boundedReader struct {
	r    io.Reader
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if b.left == 0 {
		var one [1]byte
		for {
			n, err := b.r.Read(one[:])
			if n > 0 {
				return 0, ErrOutputTooLarge
			}
			if err != nil {
				return 0, err
			}
		}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

// Workspace is the run's directory. Names are slash-separated and relative; a
// name that leaves the directory, through dots or symbolic links, is an error.
// An *os.Root is one.
type Workspace interface {
	// Name is the directory itself, for a sandbox to mount.
	Name() string
	FS() fs.FS
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	ReadFile(name string) ([]byte, error)
	WriteFile(name string, data []byte, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Rename(oldName, newName string) error
	Remove(name string) error
	RemoveAll(name string) error
}

// ArtifactWriter stores bytes that belong to the run. There is no reader: no
// tool reads an artifact back.
type ArtifactWriter interface {
	// Create stores everything r gives, up to the hard ceiling of the call, and
	// returns its reference. mediaType defaults to application/octet-stream.
	Create(ctx context.Context, mediaType string, r io.Reader) (ArtifactRef, error)
}

// CredentialResolver turns a reference from configuration into a short-lived
// value. Values it gave are scrubbed from whatever the tool returns.
type CredentialResolver interface {
	// Resolve returns [ErrNoCredential] for a reference that is not configured.
	Resolve(ctx context.Context, ref string) (Secret, error)
}

// ErrNoCredential says that a credential reference names nothing.
var ErrNoCredential = errors.New("credential reference is not configured")
