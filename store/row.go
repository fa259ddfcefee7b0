package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
)

// invocationColumns are the columns of a whole row t, as scanInvocation reads
// them.
const invocationColumns = `t.tenant_id, t.id, t.session_id, t.run_id, t.step_number, t.call_id, t.tool_name, t.tool_version,
	t.tool_source, t.server_id, t.target_kind, t.side_effect, t.idempotency_class, t.canonical_arguments,
	t.normalized_arguments_hash, t.idempotency_key, t.argument_trust, t.origin_trust, t.policy_version, t.matrix_row,
	t.authority, t.authority_id, t.proposal_n, t.parallel_group, t.batch_position, t.batch_parallel, t.status,
	t.attempt_number, t.claim_id, t.event_seq, t.created_at, t.started_at, t.completed_at, t.deadline_at, t.effect_sent_at,
	t.suspended_kind, t.suspended_ref, t.outcome_status, t.reason_code, t.item, t.output_bytes, t.truncated, t.artifact,
	t.result, t.error, t.run_error, t.synthesis_only, t.traceparent`

// scanInvocation reads invocationColumns and what the caller selected behind
// them.
func scanInvocation(row pgx.CollectableRow, more ...any) (pipeline.Invocation, error) {
	var i pipeline.Invocation
	var id, session, run [16]byte
	var authorityID, group, claim *[16]byte
	var server, policy, matrix, authority, kind, ref, out, reason, runError, trace *string
	var trust, artifact, result, errorJSON, item []byte
	var position *int
	var started, completed, sent *time.Time
	var size *int64
	into := append([]any{
		&i.TenantID, &id, &session, &run, &i.Step, &i.CallID, &i.ToolName, &i.ToolVersion,
		&i.Source, &server, &i.Target, &i.SideEffect, &i.Class, &i.Arguments,
		&i.ArgumentsHash, &i.Key, &trust, &i.OriginTrust, &policy, &matrix,
		&authority, &authorityID, &i.N, &group, &position, &i.Parallel, &i.Status,
		&i.Attempt, &claim, &i.EventSeq, &i.CreatedAt, &started, &completed, &i.DeadlineAt, &sent,
		&kind, &ref, &out, &reason, &item, &size, &i.Truncated, &artifact,
		&result, &errorJSON, &runError, &i.SynthesisOnly, &trace,
	}, more...)
	if err := row.Scan(into...); err != nil {
		return i, err
	}
	i.ID, i.SessionID, i.RunID = id, session, run
	i.AuthorityID, i.Group, i.ClaimID = idOf(authorityID), idOf(group), idOf(claim)
	i.ServerID, i.PolicyVersion, i.MatrixRow = deref(server), deref(policy), deref(matrix)
	i.Authority = pipeline.Authority(deref(authority))
	i.SuspendedKind, i.SuspendedRef = deref(kind), deref(ref)
	i.Reason, i.RunError, i.TraceParent = deref(reason), deref(runError), deref(trace)
	i.Outcome = outcomeStatus(out)
	i.StartedAt, i.CompletedAt, i.EffectSentAt = timeOf(started), timeOf(completed), timeOf(sent)
	i.Item, i.Result, i.Error, i.Artifact = item, result, errorJSON, artifactOf(artifact)
	if position != nil {
		i.Position = *position
	}
	if size != nil {
		i.OutputBytes = *size
	}
	if len(trust) > 0 && string(trust) != "{}" {
		if err := json.Unmarshal(trust, &i.ArgumentTrust); err != nil {
			return i, err
		}
	}
	return i, nil
}

// queryInvocations runs a query that selects invocationColumns and no more.
func queryInvocations(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]pipeline.Invocation, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (pipeline.Invocation, error) { return scanInvocation(row) })
}
