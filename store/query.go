package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// Step gives the calls of one step in the order in which they were proposed,
// and the open approvals among them.
func (s *Store) Step(ctx context.Context, tenant string, run tool.ID, step int) ([]pipeline.Existing, error) {
	return s.existing(ctx, tenant, `WHERE t.tenant_id = $1 AND t.run_id = $2 AND t.step_number = $3
		AND t.call_id NOT LIKE 'bridge:%' ORDER BY t.batch_position, t.id`, tenant, uuid(run), step)
}

// Invocation gives one call. Errors: [ErrNotFound].
func (s *Store) Invocation(ctx context.Context, tenant string, id tool.ID) (pipeline.Existing, error) {
	found, err := s.existing(ctx, tenant, `WHERE t.tenant_id = $1 AND t.id = $2`, tenant, uuid(id))
	if err == nil && len(found) == 0 {
		err = translate("invocation", pgx.ErrNoRows)
	}
	if err != nil {
		return pipeline.Existing{}, err
	}
	return found[0], nil
}

// Invocations lists calls.
func (s *Store) Invocations(ctx context.Context, tenant string, f pipeline.InvocationFilter) ([]pipeline.Existing, error) {
	order := "ORDER BY t.id DESC"
	if f.Waiting {
		order = "ORDER BY t.id"
	}
	return s.existing(ctx, tenant, `WHERE t.tenant_id = $1
		AND ($2::uuid IS NULL OR t.run_id = $2) AND ($3::text IS NULL OR t.status = $3) AND ($4::text IS NULL OR t.tool_name = $4)
		AND ($5::uuid IS NULL OR CASE WHEN $7 THEN t.id > $5 ELSE t.id < $5 END)
		AND ($8::uuid IS NULL OR t.session_id = $8)
		AND (NOT $7 OR (t.status = 'waiting_for_approval' AND a.decision IS NULL)) `+order+` LIMIT $6`,
		tenant, optUUID(f.RunID), optText(f.Status), optText(f.Tool), optUUID(f.Before), f.Limit, f.Waiting, optUUID(f.SessionID))
}

func (s *Store) existing(ctx context.Context, tenant, where string, args ...any) ([]pipeline.Existing, error) {
	var out []pipeline.Existing
	err := s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+invocationColumns+`, coalesce(l.until > clock_timestamp(), false),
				a.id, a.requested_at, a.expires_at, coalesce(a.decision, ''), a.decided_at, coalesce(a.decided_by, ''), coalesce(a.comment, '')
			FROM tool_invocations t
			LEFT JOIN invocation_leases l ON l.tenant_id = t.tenant_id AND l.invocation_id = t.id
			LEFT JOIN approvals a ON a.tenant_id = t.tenant_id AND a.invocation_id = t.id `+where, args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (pipeline.Existing, error) {
			var e pipeline.Existing
			var id *[16]byte
			var requested, expires, decided *time.Time
			var a pipeline.Approval
			var err error
			e.Invocation, err = scanInvocation(row, &e.LeaseLive, &id, &requested, &expires, &a.Decision, &decided, &a.DecidedBy, &a.Comment)
			if id != nil {
				a.TenantID, a.ID, a.InvocationID = e.TenantID, *id, e.ID
				a.ToolName, a.ToolVersion, a.ArgumentsHash = e.ToolName, e.ToolVersion, e.ArgumentsHash
				a.PolicyVersion, a.MatrixRow = e.PolicyVersion, e.MatrixRow
				a.RequestedAt, a.ExpiresAt, a.DecidedAt = timeOf(requested), timeOf(expires), timeOf(decided)
				e.Approval = &a
			}
			return e, err
		})
		return err
	})
	return out, translate("invocations", err)
}

// History gives the events of one call in order.
func (s *Store) History(ctx context.Context, tenant string, invocation tool.ID) ([]pipeline.EventRecord, error) {
	var out []pipeline.EventRecord
	err := s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT event, occurred_at, attempt, effect_sent, coalesce(outcome_status, ''), coalesce(reason_code, '')
			FROM events WHERE tenant_id = $1 AND invocation_id = $2 ORDER BY seq`, tenant, uuid(invocation))
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (pipeline.EventRecord, error) {
			var e pipeline.EventRecord
			return e, row.Scan(&e.Name, &e.At, &e.Attempt, &e.EffectSent, &e.Outcome, &e.Reason)
		})
		return err
	})
	return out, translate("history", err)
}

// Evidence gives late results and reviews of the named calls.
func (s *Store) Evidence(ctx context.Context, tenant string, ids []tool.ID) (map[tool.ID]pipeline.Evidence, error) {
	var id column[[16]byte]
	for _, i := range ids {
		id.add(i)
	}
	out := map[tool.ID]pipeline.Evidence{}
	err := s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT u.id,
				(SELECT count(*) FROM late_results l WHERE l.tenant_id = $1 AND l.invocation_id = u.id),
				coalesce(r.verdict, ''), coalesce(r.reviewed_by, ''), r.reviewed_at, coalesce(r.comment, '')
			FROM unnest($2::uuid[]) AS u (id)
			LEFT JOIN reviews r ON r.tenant_id = $1 AND r.invocation_id = u.id`, tenant, id)
		if err != nil {
			return err
		}
		_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
			var inv [16]byte
			var e pipeline.Evidence
			var at *time.Time
			err := row.Scan(&inv, &e.LateResults, &e.Verdict, &e.ReviewedBy, &at, &e.Comment)
			e.ReviewedAt = timeOf(at)
			out[inv] = e
			return struct{}{}, err
		})
		return err
	})
	return out, translate("evidence", err)
}

// EventNotices gives events of a call from one number up to, and without,
// another, for a reader that found a gap.
func (s *Store) EventNotices(ctx context.Context, tenant string, invocation tool.ID, from, to int) ([]pipeline.Notice, error) {
	e, err := s.Invocation(ctx, tenant, invocation)
	if err != nil {
		return nil, err
	}
	records, err := s.History(ctx, tenant, invocation)
	if err != nil {
		return nil, err
	}
	var out []pipeline.Notice
	for i, r := range records {
		if seq := i + 1; seq >= from && seq < to {
			out = append(out, pipeline.Notice{Kind: pipeline.NoticeEvent, Ref: invocation, Seq: seq, Call: &e.Invocation, Event: r})
		}
	}
	return out, nil
}

// DeadLetter is a message that could not be understood or handled.
type DeadLetter = pipeline.DeadLetter

const maximumPayload = 1 << 20

// RecordDeadLetter keeps a message that is about to be terminated. An unknown
// tenant is recorded as "-".
func (s *Store) RecordDeadLetter(ctx context.Context, d DeadLetter) error {
	if d.Tenant == "" {
		d.Tenant = "-"
	}
	payload := d.Payload
	if len(payload) > maximumPayload {
		payload = payload[:maximumPayload]
	}
	if payload == nil {
		payload = []byte{}
	}
	d.Subject, d.Reason = storableText(d.Subject), storableText(d.Reason)
	err := s.inTenant(ctx, d.Tenant, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO dead_letters (tenant_id, id, kind, subject, reason, payload, deliveries)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, d.Tenant, uuid(tool.NewID()), d.Kind, d.Subject, d.Reason, payload, d.Deliveries)
		return err
	})
	return translate("dead letter", err)
}

// GrantStanding records an approval given in advance.
func (s *Store) GrantStanding(ctx context.Context, tenant string, row pipeline.StandingRow, principal, by string, expires time.Time) error {
	err := s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO standing_authorizations (tenant_id, id, principal, tool, condition, created_by, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, tenant, uuid(row.ID), principal, row.Tool, row.Condition, by, expires)
		return err
	})
	return translate("standing authorization", err)
}

// RevokeStanding takes an approval given in advance back. Errors: [ErrNotFound].
func (s *Store) RevokeStanding(ctx context.Context, tenant string, id tool.ID) error {
	err := s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE standing_authorizations SET revoked_at = clock_timestamp()
			WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL`, tenant, uuid(id))
		if err == nil && tag.RowsAffected() == 0 {
			err = pgx.ErrNoRows
		}
		return err
	})
	return translate("standing authorization", err)
}

// Now gives the database's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := s.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now)
	return now, translate("clock", err)
}

// IsNotFound reports whether err says that there is no such row.
func IsNotFound(err error) bool { return errors.Is(err, ErrNotFound) }
