package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/toolbus/toolbus/builtin"
	"github.com/toolbus/toolbus/config"
	"github.com/toolbus/toolbus/internal/egress"
	"github.com/toolbus/toolbus/internal/sandbox"
	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/policy"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/store"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// Devices is the seam to a user's devices: how calls reach one is for whoever
// builds such a transport.
type Devices interface {
	// Tool gives the implementation of a device's tool, or false while this
	// process has no connection to the device.
	Tool(tenant string, spec tool.Spec) (tool.Tool, bool)
}

func buildRegistry(o Options) (*registry.Registry, error) {
	c := o.Config
	allow, err := egress.Parse(c.Egress.Allow...)
	if err != nil {
		return nil, fmt.Errorf("egress.allow: %w", err)
	}
	reg, err := registry.New(registry.Options{
		Limits: registry.Limits{MaximumOutputBytes: c.Output.MaximumBytes, ExtraDomains: o.Domains},
	})
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	all := builtin.All(builtin.Options{
		Egress: allow, MaximumOutputBytes: c.Output.MaximumBytes, UserAgent: "toolbus/" + o.Version,
		Sandbox: sandbox.Config{
			AllowUnconfined: c.Sandbox.AllowUnconfined,
			Limits: sandbox.Limits{
				CPUSeconds: uint64(c.Sandbox.CPUSeconds), MemoryBytes: uint64(c.Sandbox.MemoryBytes), //nolint:gosec // positive by configuration
				FileBytes: uint64(c.Sandbox.FileBytes), Processes: uint64(c.Sandbox.Processes), //nolint:gosec // positive by configuration
			},
		},
		Demo: builtin.DemoSink{File: o.DemoSink},
	})
	for _, t := range append(all, o.Tools...) {
		if err := reg.RegisterBuiltin(t); err != nil {
			return nil, fmt.Errorf("registry: %w", err)
		}
	}
	return reg, nil
}

func loadProfiles(c config.Policy) (map[string]*policy.Profile, error) {
	shipped, err := policy.Shipped()
	if err != nil {
		return nil, fmt.Errorf("shipped policy: %w", err)
	}
	out := map[string]*policy.Profile{"default": shipped}
	for name, file := range c.Profiles {
		doc, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return nil, fmt.Errorf("policy.profiles.%s: %w", name, err)
		}
		if out[name], err = policy.Parse(doc); err != nil {
			return nil, fmt.Errorf("policy.profiles.%s: %w", name, err)
		}
	}
	return out, nil
}

// applyStanding records the standing authorizations of the configuration; they
// have stable ids, so that every process may do it.
func applyStanding(ctx context.Context, s *store.Store, all []config.Standing) error {
	for _, c := range all {
		expires, err := time.Parse(time.RFC3339, c.ExpiresAt)
		if err != nil {
			return fmt.Errorf("policy.standing %s: %w", c.Name, err)
		}
		row := pipeline.StandingRow{ID: stableID(c.Tenant, c.Name), Tool: c.Tool, Condition: c.Condition}
		if row.Condition == "" {
			row.Condition = "true"
		}
		if _, err := policy.CompileStanding(policy.Standing{ID: row.ID, Principal: c.Principal, Tool: row.Tool, Condition: row.Condition}); err != nil {
			return fmt.Errorf("policy.standing %s: %w", c.Name, err)
		}
		if err := s.GrantStanding(ctx, c.Tenant, row, c.Principal, "configuration", expires); err != nil {
			return fmt.Errorf("policy.standing %s: %w", c.Name, err)
		}
	}
	return nil
}

// catalog gives new sessions their tools: the build's, and those of devices
// that are attached.
type catalog struct {
	registry *registry.Registry
	store    *store.Store
}

func (c *catalog) ToolsFor(ctx context.Context, tenant string, _ []string) (*registry.Registry, []subjects.ServerState, error) {
	devices, err := c.store.Devices(ctx, tenant)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // says what it is
	}
	fork := c.registry.Fork()
	for _, d := range devices {
		if !d.Attached {
			continue
		}
		if _, err := fork.RegisterDynamic(ctx, d.Specs, tool.Device); err != nil {
			return nil, nil, fmt.Errorf("device %s: %w", d.ID, err)
		}
	}
	return fork, nil, nil
}

// tools finds the implementation of a pinned declaration.
type tools struct {
	registry *registry.Registry
	store    *store.Store
	devices  Devices
}

func (t *tools) Tool(ctx context.Context, tenant string, spec tool.Spec) (tool.Tool, error) {
	if spec.Source != tool.Device {
		return t.registry.Get(spec.Name, spec.Version) //nolint:wrapcheck // the pipeline words it
	}
	attached, err := t.store.DeviceAttached(ctx, tenant, spec.DeviceID)
	if err != nil {
		return nil, err //nolint:wrapcheck // says what it is
	}
	if attached && t.devices != nil {
		if impl, ok := t.devices.Tool(tenant, spec); ok {
			return impl, nil
		}
	}
	return nil, &tool.Unavailable{Code: outcome.CodeDeviceOffline, Detail: "device " + spec.DeviceID + " is not connected"}
}

// workspaces gives each run a directory of its own.
type workspaces struct{ dir string }

func (w *workspaces) Open(_ context.Context, tenant string, run tool.ID) (tool.Workspace, func(), error) {
	dir := filepath.Join(w.dir, tenant, run.String())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err //nolint:wrapcheck // the caller words it
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the caller words it
	}
	return root, func() { _ = root.Close() }, nil
}

// credentials resolves references that the configuration names.
type credentials struct {
	refs   map[string]string
	getenv func(string) string
}

func newCredentials(refs map[string]string, getenv func(string) string) *credentials {
	return &credentials{refs: refs, getenv: getenv}
}

var errEmptyCredential = errors.New("credential is empty")

func (c *credentials) Resolve(_ context.Context, ref string) (tool.Secret, error) {
	source, ok := c.refs[ref]
	if !ok {
		return tool.Secret{}, fmt.Errorf("%q: %w", ref, tool.ErrNoCredential)
	}
	return c.read(ref, source)
}

// configured also takes env:NAME and file:/path, which only the operator's own
// configuration may say: anybody else could name any variable of the process.
func (c *credentials) configured(ctx context.Context, ref string) (tool.Secret, error) {
	if _, named := c.refs[ref]; named {
		return c.Resolve(ctx, ref)
	}
	return c.read(ref, ref)
}

func (c *credentials) read(ref, source string) (tool.Secret, error) {
	var value string
	switch {
	case len(source) > 4 && source[:4] == "env:":
		value = c.getenv(source[4:])
	case len(source) > 5 && source[:5] == "file:":
		data, err := os.ReadFile(filepath.Clean(source[5:]))
		if err != nil {
			return tool.Secret{}, fmt.Errorf("%q: %w", ref, err)
		}
		value = string(trimNewline(data))
	default:
		return tool.Secret{}, fmt.Errorf("%q: %w", ref, tool.ErrNoCredential)
	}
	if value == "" {
		return tool.Secret{}, fmt.Errorf("%q: %w", ref, errEmptyCredential)
	}
	return tool.NewSecret(value), nil
}

func trimNewline(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return b
}
