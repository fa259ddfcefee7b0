package executor

import (
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// Options configure the service.
type Options struct {
	Store Store
	Bus   Bus
	// Executor carries claimed calls from step 10 on.
	Executor *pipeline.Executor
	Logger   *slog.Logger
	// Targets are the execution targets this process serves.
	Targets []tool.Target
	// Owner names this process start in its leases; it is never used twice.
	Owner string
	Slots int
	// TenantShare is the part of the slots that one tenant may hold while others
	// are served here too.
	TenantShare     float64
	Lease           time.Duration
	Window          int
	MaximumAttempts int
	// DrainTimeout bounds how long a stop waits for what runs.
	DrainTimeout time.Duration
	Probe        pipeline.Probe
}

func (o *Options) validate() error {
	switch {
	case o.Store == nil, o.Bus == nil, o.Executor == nil:
		return errors.New("executor: store, bus and pipeline are required")
	case len(o.Targets) == 0, o.Owner == "":
		return errors.New("executor: targets and an owner name are required")
	case o.Lease < 50*time.Millisecond:
		return errors.New("executor: a lease of less than 50 ms cannot be kept")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Slots <= 0 {
		o.Slots = 64
	}
	if o.TenantShare <= 0 || o.TenantShare > 1 {
		o.TenantShare = 0.5
	}
	if o.Window <= 0 {
		o.Window = 8
	}
	if o.MaximumAttempts <= 0 {
		o.MaximumAttempts = 5
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = 30 * time.Second
	}
	return nil
}

// share is how many slots one tenant may hold while others are served.
func (o *Options) share() int { return max(1, int(math.Ceil(o.TenantShare*float64(o.Slots)))) }
