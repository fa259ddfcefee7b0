package store

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// EndRun ends a run: by cancellation or because the runtime is done. What waits,
// is authorized or suspended ends with the given reason code; what runs is told
// to stop by its next heartbeat, and its own result counts if it comes in time.
func (s *Store) EndRun(
	ctx context.Context, m pipeline.CommandMeta, run tool.ID, status pipeline.RunStatus, reason string,
	code string, settle func(*pipeline.Invocation, pipeline.End) pipeline.Settlement,
) (pipeline.CommandResult, error) {
	return s.command(ctx, m, func(ctx context.Context, tx *commandTx) (string, error) {
		var was string
		err := tx.QueryRow(ctx, "SELECT status FROM runs WHERE tenant_id = $1 AND id = $2 FOR UPDATE", m.Tenant, uuid(run)).Scan(&was)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return "unknown_run", nil
		case err != nil:
			return "", err
		case was != string(pipeline.RunOpen):
			return "run_over", nil
		}
		_, err = tx.Exec(ctx, "UPDATE runs SET status = $3, reason = $4, ended_at = clock_timestamp() WHERE tenant_id = $1 AND id = $2",
			m.Tenant, uuid(run), string(status), optText(reason))
		if err != nil {
			return "", err
		}
		if status == pipeline.RunCancelled {
			data, err := json.Marshal(map[string]string{"run_id": run.String(), "command_id": m.ID})
			if err != nil {
				return "", err
			}
			tx.tell(ctx, pipeline.OtherEvent{TenantID: m.Tenant, ID: tool.NewID(), Name: pipeline.EventRunCanceled, RunID: run, At: tx.now, Data: data})
		}
		return "", tx.endIdle(ctx, run, code, settle)
	})
}

// idleCallsSQL lists the open calls of a run that no worker holds.
const idleCallsSQL = `SELECT ` + invocationColumns + ` FROM tool_invocations t
	WHERE t.tenant_id = $1 AND t.run_id = $2 AND t.completed_at IS NULL
	AND (t.status IN ('waiting_for_approval', 'authorized') OR t.suspended_kind IS NOT NULL)
	ORDER BY t.id`

func (c *commandTx) endIdle(ctx context.Context, run tool.ID, code string, settle func(*pipeline.Invocation, pipeline.End) pipeline.Settlement) error {
	rows, err := queryInvocations(ctx, c.Tx, idleCallsSQL, c.m.Tenant, uuid(run))
	if err != nil {
		return err
	}
	ops := make([]*pipeline.Ending, len(rows))
	for i := range rows {
		ops[i] = IdleEnding(&rows[i], settle(&rows[i], pipeline.End{Outcome: tool.OutcomeFailed, Reason: code}))
	}
	return c.end(ctx, ops)
}

// IdleEnding ends a call that no worker holds, provided that it is still as it
// was read.
func IdleEnding(row *pipeline.Invocation, st pipeline.Settlement) *pipeline.Ending {
	e := &pipeline.Ending{
		Row: row, Settlement: st, Expect: row.Status, Attempt: row.Attempt, Suspended: row.SuspendedKind != "",
		HotRun: true,
	}
	if row.Status == tool.WaitingForApproval {
		e.Decision = &pipeline.ApprovalDecision{Decision: "withdrawn"}
	}
	return e
}

// CloseSession closes a session: it takes no new proposals, and calls that have
// not had their effect yet lose their authority.
func (s *Store) CloseSession(ctx context.Context, m pipeline.CommandMeta, session tool.ID) (pipeline.CommandResult, error) {
	return s.command(ctx, m, func(ctx context.Context, tx *commandTx) (string, error) {
		tag, err := tx.Exec(ctx, `UPDATE sessions SET closed_at = clock_timestamp()
			WHERE tenant_id = $1 AND id = $2 AND closed_at IS NULL`, m.Tenant, uuid(session))
		if err != nil || tag.RowsAffected() == 1 {
			return "", err
		}
		return "unknown_session", nil
	})
}

// Revoke takes scopes from a principal; "*" takes everything. No watermark
// statement that starts afterwards passes on what was taken.
func (s *Store) Revoke(ctx context.Context, m pipeline.CommandMeta, principal string, scopes []string) (pipeline.CommandResult, error) {
	return s.command(ctx, m, func(ctx context.Context, tx *commandTx) (string, error) {
		_, err := tx.Exec(ctx, `INSERT INTO revocations (tenant_id, principal, scope, revoked_by)
			SELECT $1, $2, u, $4 FROM unnest($3::text[]) u ON CONFLICT DO NOTHING`, m.Tenant, principal, scopes, m.Actor)
		return "", err
	})
}

// Review records what a person found out about an uncertain call. The status
// stays: the verdict is evidence beside it.
func (s *Store) Review(ctx context.Context, m pipeline.CommandMeta, invocation tool.ID, verdict, comment string) (pipeline.CommandResult, error) {
	return s.command(ctx, m, func(ctx context.Context, tx *commandTx) (string, error) {
		row, err := tx.lockInvocation(ctx, invocation)
		switch {
		case err != nil:
			return "", err
		case row == nil:
			return "unknown_invocation", nil
		case row.Status != tool.Uncertain:
			return "not_uncertain", nil
		}
		tag, err := tx.Exec(ctx, `INSERT INTO reviews (tenant_id, invocation_id, verdict, reviewed_by, comment)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`, m.Tenant, uuid(invocation), verdict, m.Actor, optText(comment))
		if err != nil {
			return "", err
		}
		if tag.RowsAffected() == 0 {
			return "already_reviewed", nil
		}
		return "", tx.tellCall(ctx, row, pipeline.EventReviewed)
	})
}

// Resume answers a suspended call. The row stays suspended until a claim takes
// the answer.
func (s *Store) Resume(ctx context.Context, m pipeline.CommandMeta, invocation tool.ID, answer json.RawMessage) (pipeline.CommandResult, error) {
	return s.command(ctx, m, func(ctx context.Context, tx *commandTx) (string, error) {
		row, err := tx.lockInvocation(ctx, invocation)
		switch {
		case err != nil:
			return "", err
		case row == nil:
			return "unknown_invocation", nil
		case row.SuspendedKind == "":
			return "not_suspended", nil
		}
		tag, err := tx.Exec(ctx, `UPDATE suspensions SET answer = $3, answered_at = clock_timestamp()
			WHERE tenant_id = $1 AND invocation_id = $2 AND answered_at IS NULL`, m.Tenant, uuid(invocation), string(answer))
		if err != nil {
			return "", err
		}
		if tag.RowsAffected() == 0 {
			return "already_answered", nil
		}
		tx.owed.add(m.Tenant, pipeline.Notice{Kind: pipeline.NoticeHint, Ref: row.ID, Call: row})
		return "", tx.tellCall(ctx, row, pipeline.EventResumed)
	})
}

// RefuseCommand records a command that cannot be understood, so that asking for
// it gives an answer.
func (s *Store) RefuseCommand(ctx context.Context, m pipeline.CommandMeta, code string) (pipeline.CommandResult, error) {
	return s.command(ctx, m, func(context.Context, *commandTx) (string, error) { return code, nil })
}

// tellCall appends an event to a call that is locked.
func (c *commandTx) tellCall(ctx context.Context, row *pipeline.Invocation, name string) error {
	err := c.QueryRow(ctx, `UPDATE tool_invocations SET event_seq = event_seq + 1
		WHERE tenant_id = $1 AND id = $2 RETURNING event_seq`, row.TenantID, uuid(row.ID)).Scan(&row.EventSeq)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, `INSERT INTO events (tenant_id, invocation_id, seq, event, occurred_at, attempt, effect_sent)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, row.TenantID, uuid(row.ID), row.EventSeq, name, c.now, row.Attempt, row.EffectSent())
	c.owed.add(row.TenantID, eventNotice(row, row.EventSeq, pipeline.EventRecord{
		Name: name, At: c.now, Attempt: row.Attempt, EffectSent: row.EffectSent(),
	}))
	return err
}

// Command gives how a command was settled. Errors: [ErrNotFound].
func (s *Store) Command(ctx context.Context, tenant, id string) (pipeline.CommandResult, error) {
	var out pipeline.CommandResult
	err := s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT kind, result, coalesce(code, ''), settled_at FROM commands
			WHERE tenant_id = $1 AND command_id = $2`, tenant, id).Scan(&out.Kind, &out.Result, &out.Code, &out.SettledAt)
	})
	return out, translate("command", err)
}

// lockInvocation gives a call that nobody else changes until the transaction
// ends; nil when the tenant has none of that id.
func (c *commandTx) lockInvocation(ctx context.Context, id tool.ID) (*pipeline.Invocation, error) {
	rows, err := queryInvocations(ctx, c, `SELECT `+invocationColumns+` FROM tool_invocations t
		WHERE t.tenant_id = $1 AND t.id = $2 FOR UPDATE`, c.m.Tenant, uuid(id))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}
