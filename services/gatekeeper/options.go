package gatekeeper

import (
	"errors"
	"log/slog"
	"time"

	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/policy"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/tool"
)

// Options configure the service.
type Options struct {
	Store   Store
	Bus     Bus
	Catalog Catalog
	Table   *outcome.Table
	Logger  *slog.Logger
	// Profiles are the policy profiles by name; DefaultProfile is used where a
	// session names none.
	Profiles       map[string]*policy.Profile
	DefaultProfile string
	// Disabled are patterns of tools that an operator switched off.
	Disabled []string
	// Environment is what this deployment can execute.
	Environment registry.Environment
	// MaxTrust is the highest label a tenant may claim; absent means user.
	MaxTrust map[string]tool.Trust
	// Concurrency bounds the proposals handled at a time.
	Concurrency int
	// TenantOpen bounds the proposals of one tenant handled at a time by this
	// process while it handles others' too; 0 means half of Concurrency.
	TenantOpen     int
	ApprovalExpiry time.Duration
	RunDeadline    time.Duration
	Probe          pipeline.Probe
	// Counted is told of every proposal and its refusal code, empty for none.
	Counted func(refusal string)
}

func (o *Options) validate() error {
	switch {
	case o.Store == nil, o.Bus == nil, o.Catalog == nil, o.Table == nil:
		return errors.New("gatekeeper: store, bus, catalog and reason table are required")
	case o.Profiles[o.DefaultProfile] == nil:
		return errors.New("gatekeeper: the default policy profile is not loaded")
	case o.ApprovalExpiry <= 0, o.RunDeadline <= 0:
		return errors.New("gatekeeper: approval expiry and run deadline must be positive")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 512
	}
	if o.TenantOpen <= 0 {
		o.TenantOpen = max(1, o.Concurrency/2)
	}
	if o.Counted == nil {
		o.Counted = func(string) {}
	}
	return nil
}
