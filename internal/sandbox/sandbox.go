package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// ErrUnconfined says that no confinement is to be had here and none was waived. Its
// text tells an operator what to do.
var ErrUnconfined = errors.New("bubblewrap (bwrap) is not installed or not permitted here; install it, or allow unconfined commands in the configuration")

// Limits bound one run. A zero field takes the default named beside it; a limit
// already lower in this process stays lower.
type Limits struct {
	// CPUSeconds is processor time per process; 60.
	CPUSeconds uint64
	// MemoryBytes is address space per process; 2 GiB.
	MemoryBytes uint64
	// FileBytes is the size of any file written; 256 MiB. Confined, the temporary
	// file systems are each bounded by it too.
	FileBytes uint64
	// OpenFiles is descriptors per process; 256.
	OpenFiles uint64
	// Processes counts those of this user in the sandbox, threads included; 128.
	Processes uint64
}

func (l Limits) withDefaults() Limits {
	set := func(v *uint64, fallback uint64) {
		if *v == 0 {
			*v = fallback
		}
	}
	set(&l.CPUSeconds, 60)
	set(&l.MemoryBytes, 2<<30)
	set(&l.FileBytes, 256<<20)
	set(&l.OpenFiles, 256)
	set(&l.Processes, 128)
	return l
}

// Config sets up a [Runner]. The zero value is the careful one.
type Config struct {
	// Bubblewrap is the path of bwrap; empty looks for it on [Path].
	Bubblewrap string
	// AllowUnconfined runs commands without bubblewrap where there is none.
	AllowUnconfined bool
	// Readable lists further absolute host paths the command may read at the same
	// place, such as a toolchain below /opt.
	Readable []string
	// Scratch is where private directories of unconfined commands are made; empty
	// means the system's temporary directory.
	Scratch string
	Limits  Limits
}

// Runner runs commands. It is safe for concurrent use and owns nothing between runs.
type Runner struct {
	config Config
	// tried is set once bubblewrap has been seen to work.
	tried atomic.Bool
}

// New makes a runner; whether commands can run is found out by [Runner.Confinement].
func New(c Config) *Runner {
	c.Limits = c.Limits.withDefaults()
	return &Runner{config: c}
}

// Command is one run.
type Command struct {
	// Args is the program, as an absolute path, and its arguments.
	Args []string
	// Dir is the absolute host path of the working directory, the only writable one.
	Dir string
	// Stdin is all the command can read; empty means end of file at once.
	Stdin []byte
	// OutputBytes bounds standard output and standard error together.
	OutputBytes int64
}

// Outcome is what a run left.
type Outcome struct {
	// ExitCode is the shell's: 128 and the signal's number for a killed command.
	ExitCode       int
	Stdout, Stderr []byte
	// Exceeded says that the command was killed since it had more to say than
	// Command.OutputBytes; the output is what fitted.
	Exceeded bool
	// Confined says that the command ran under bubblewrap.
	Confined bool
	// Duration is from start to the end of the last process.
	Duration time.Duration
}

// Confinement finds bubblewrap and tries it, until it has worked once. It returns nil
// when commands will be confined, or may run unconfined, and an error that wraps
// [ErrUnconfined] otherwise.
func (r *Runner) Confinement(ctx context.Context) error {
	if r.config.AllowUnconfined {
		return nil
	}
	path, err := r.bubblewrap()
	if err != nil || r.tried.Load() {
		return err
	}
	dir, err := os.MkdirTemp(r.config.Scratch, "toolbus-probe-")
	if err != nil {
		return fmt.Errorf("probe bubblewrap: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	probe := Command{Args: []string{"/bin/sh", "-c", "exit 0"}, Dir: dir, OutputBytes: 4096}
	out, err := r.confined(ctx, path, probe)
	switch {
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("%w: %w", ErrUnconfined, err)
	case err != nil:
		return err
	case out.ExitCode != 0:
		return fmt.Errorf("%w: the probe ended with %d", ErrUnconfined, out.ExitCode)
	}
	r.tried.Store(true)
	return nil
}

// Run runs c and waits until nothing of it is left. An error means that the command
// could not be started (it wraps [ErrUnconfined] where confinement is missing), or
// wraps the error of ctx when that ended the run; the outcome then holds the output
// up to there. How the command itself ended is never an error.
func (r *Runner) Run(ctx context.Context, c Command) (Outcome, error) {
	if len(c.Args) == 0 || !filepath.IsAbs(c.Args[0]) || strings.Contains(c.Args[0], "=") {
		return Outcome{}, errors.New("the program must be an absolute path without an equals sign")
	}
	if !filepath.IsAbs(c.Dir) {
		return Outcome{}, errors.New("the working directory must be an absolute path")
	}
	path, err := r.bubblewrap()
	if err == nil {
		return r.confined(ctx, path, c)
	}
	if !r.config.AllowUnconfined {
		return Outcome{}, err
	}
	return r.unconfined(ctx, c)
}

// bubblewrap gives the path of an executable bwrap.
func (r *Runner) bubblewrap() (string, error) {
	candidates := []string{r.config.Bubblewrap}
	if r.config.Bubblewrap == "" {
		candidates = nil
		for dir := range strings.SplitSeq(Path, ":") {
			candidates = append(candidates, filepath.Join(dir, "bwrap"))
		}
	}
	for _, path := range candidates {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", ErrUnconfined
}
