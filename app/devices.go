package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/store"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// ErrDeviceRefused says that a device declared what no device may.
var ErrDeviceRefused = errors.New("device is not attached")

// AttachDevice records that a device of the tenant is connected, and what it
// declares: sessions opened from now on offer its tools. The declarations are
// validated as every registration is; source, device, target and output trust
// are forced, since no device makes claims about its own trustworthiness. One
// that is refused leaves the device as it was. It returns what was stored.
func AttachDevice(ctx context.Context, o Options, tenant, device string, specs []tool.Spec) ([]tool.Spec, error) {
	o.withDefaults()
	if !subjects.ValidToken(tenant) || !subjects.ValidToken(device) {
		return nil, fmt.Errorf("%w: tenant and device: %w", ErrDeviceRefused, subjects.ErrToken)
	}
	reg, err := buildRegistry(o)
	if err != nil {
		return nil, err
	}
	forced := make([]tool.Spec, len(specs))
	for i, spec := range specs {
		spec.Source, spec.DeviceID, spec.ServerID = tool.Device, device, ""
		spec.Kind, spec.TargetKind = tool.Capability, tool.DeviceTarget
		forced[i] = registry.Harden(spec)
	}
	report, err := reg.RegisterDynamic(ctx, forced, tool.Device)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", device, err)
	}
	if err := refused(report); err != nil {
		return nil, err
	}
	return forced, withStore(ctx, o, func(s *store.Store) error { return s.AttachDevice(ctx, tenant, device, forced) })
}

func refused(r registry.Report) error {
	var errs []error
	for _, rejected := range r.Rejected {
		errs = append(errs, fmt.Errorf("%w: a tool breaks rule %s (%s)", ErrDeviceRefused, rejected.Reason, rejected.Detail))
	}
	if len(r.Conflicts) > 0 {
		errs = append(errs, fmt.Errorf("%w: %d names are declared more than once", ErrDeviceRefused, len(r.Conflicts)))
	}
	return errors.Join(errs...)
}

// DetachDevice records that a device is gone: its tools stay in the sessions
// that pinned them, and a call of one is unavailable. Errors: [store.ErrNotFound]
// when it is not attached.
func DetachDevice(ctx context.Context, o Options, tenant, device string) error {
	o.withDefaults()
	return withStore(ctx, o, func(s *store.Store) error { return s.DetachDevice(ctx, tenant, device) })
}

// ListDevices lists the devices of a tenant, attached or not.
func ListDevices(ctx context.Context, o Options, tenant string) (all []store.Device, err error) {
	o.withDefaults()
	err = withStore(ctx, o, func(s *store.Store) error {
		all, err = s.Devices(ctx, tenant)
		return err //nolint:wrapcheck // says what it is
	})
	return all, err
}

func withStore(ctx context.Context, o Options, use func(*store.Store) error) error {
	s, err := store.Open(ctx, store.Options{URL: o.Database, Pool: 1, Logger: o.Logger})
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer s.Close()
	return use(s)
}
