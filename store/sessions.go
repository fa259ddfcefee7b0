package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/tool"
)

// OpenSession records a session and its pin. It is idempotent by request id:
// when the tenant has used it before, the id of that session is returned and
// nothing is written.
func (s *Store) OpenSession(ctx context.Context, n *pipeline.Session) (tool.ID, error) {
	pin := n.Catalog.Pin
	specs, err := json.Marshal(pin)
	if err != nil {
		return tool.ID{}, fmt.Errorf("pin: %w", err)
	}
	id := n.ID
	err = s.inTenant(ctx, n.TenantID, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO pins (tenant_id, sha256, tool_schema_sha256, specs) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
			n.TenantID, pin.SpecsSHA256(), pin.ToolSchemaSHA256(), specs)
		b.Queue(`INSERT INTO sessions (tenant_id, id, request_id, principal, interactive, scopes, agent_id, agent_tools, profile,
				pin_sha256, run_deadline_seconds, max_tool_calls)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, nullif($12, 0)) ON CONFLICT (tenant_id, request_id) DO NOTHING`,
			n.TenantID, uuid(n.ID), n.RequestID, n.Principal.ID, n.Principal.Interactive, notNil(n.Scopes), n.AgentID, notNil(n.AgentTools),
			n.Profile, pin.SpecsSHA256(), max(1, int(n.RunDeadline.Seconds())), n.MaxToolCalls)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		var there [16]byte
		err := tx.QueryRow(ctx, "SELECT id FROM sessions WHERE tenant_id = $1 AND request_id = $2", n.TenantID, n.RequestID).Scan(&there)
		id = there
		return err
	})
	return id, translate("open session", err)
}

func notNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// Session loads a session with its pin. catalog gives a shared catalog for the
// hash of a pin, or nil when there is none yet. Errors: [ErrNotFound].
func (s *Store) Session(ctx context.Context, tenant string, id tool.ID, catalog func(sha string) *pipeline.Catalog) (*pipeline.Session, error) {
	out := &pipeline.Session{TenantID: tenant, ID: id}
	var sha string
	var seconds int
	err := s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT request_id, principal, interactive, scopes, agent_id, agent_tools, profile, pin_sha256,
				run_deadline_seconds, coalesce(max_tool_calls, 0), opened_at
			FROM sessions WHERE tenant_id = $1 AND id = $2`, tenant, uuid(id)).
			Scan(&out.RequestID, &out.Principal.ID, &out.Principal.Interactive, &out.Scopes, &out.AgentID, &out.AgentTools,
				&out.Profile, &sha, &seconds, &out.MaxToolCalls, &out.OpenedAt)
		if err != nil {
			return err
		}
		if out.Catalog = catalog(sha); out.Catalog != nil {
			return nil
		}
		var specs []byte
		if err := tx.QueryRow(ctx, "SELECT specs FROM pins WHERE tenant_id = $1 AND sha256 = $2", tenant, sha).Scan(&specs); err != nil {
			return err
		}
		pin := new(registry.Pin)
		if err := json.Unmarshal(specs, pin); err != nil {
			return err
		}
		if pin.SpecsSHA256() != sha {
			return fmt.Errorf("pin %s: %w", sha, registry.ErrPin)
		}
		out.Catalog = pipeline.NewCatalog(pin)
		return nil
	})
	out.RunDeadline = time.Duration(seconds) * time.Second
	return out, translate("session", err)
}

// SessionByRequest finds the session that a request id opened. Errors:
// [ErrNotFound].
func (s *Store) SessionByRequest(ctx context.Context, tenant, request string) (tool.ID, error) {
	var id [16]byte
	err := s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT id FROM sessions WHERE tenant_id = $1 AND request_id = $2", tenant, request).Scan(&id)
	})
	return id, translate("session", err)
}

// Device is a row of devices: what a device declared when it was attached.
type Device struct {
	ID       string
	Specs    []tool.Spec
	Attached bool
}

// AttachDevice records that a device is connected and what it declares.
func (s *Store) AttachDevice(ctx context.Context, tenant, device string, specs []tool.Spec) error {
	raw, err := json.Marshal(specs)
	if err != nil {
		return fmt.Errorf("device: %w", err)
	}
	err = s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO devices (tenant_id, device_id, specs) VALUES ($1, $2, $3)
			ON CONFLICT (tenant_id, device_id) DO UPDATE SET specs = excluded.specs, attached_at = clock_timestamp(), detached_at = NULL`,
			tenant, device, raw)
		return err
	})
	return translate("attach device", err)
}

// DetachDevice records that a device is gone. Errors: [ErrNotFound].
func (s *Store) DetachDevice(ctx context.Context, tenant, device string) error {
	err := s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE devices SET detached_at = clock_timestamp()
			WHERE tenant_id = $1 AND device_id = $2 AND detached_at IS NULL`, tenant, device)
		if err == nil && tag.RowsAffected() == 0 {
			err = pgx.ErrNoRows
		}
		return err
	})
	return translate("detach device", err)
}

// Devices lists the devices of a tenant, attached or not.
func (s *Store) Devices(ctx context.Context, tenant string) ([]Device, error) {
	var out []Device
	err := s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "SELECT device_id, specs, detached_at IS NULL FROM devices WHERE tenant_id = $1 ORDER BY device_id", tenant)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Device, error) {
			var d Device
			var raw []byte
			if err := row.Scan(&d.ID, &raw, &d.Attached); err != nil {
				return d, err
			}
			return d, json.Unmarshal(raw, &d.Specs)
		})
		return err
	})
	return out, translate("devices", err)
}

// DeviceAttached reports whether a device is connected now.
func (s *Store) DeviceAttached(ctx context.Context, tenant, device string) (bool, error) {
	var there bool
	err := s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "SELECT detached_at IS NULL FROM devices WHERE tenant_id = $1 AND device_id = $2", tenant, device).Scan(&there)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return there, translate("device", err)
}
