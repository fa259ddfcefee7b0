WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
used AS (
    UPDATE approvals a SET decision = 'approved', decided_at = clock.now, decided_by = $3, comment = $4, used_at = clock.now
    FROM clock
    WHERE a.tenant_id = $1 AND a.id = $2 AND a.decision IS NULL AND a.expires_at > clock.now
    RETURNING a.invocation_id, a.tool_version, a.normalized_arguments_hash
), moved AS (
    UPDATE tool_invocations t SET status = 'authorized', event_seq = t.event_seq + 2, policy_version = $5, matrix_row = $6
    FROM used
    WHERE t.tenant_id = $1 AND t.id = used.invocation_id AND t.status = 'waiting_for_approval'
      AND t.tool_version = used.tool_version AND t.normalized_arguments_hash = used.normalized_arguments_hash
    RETURNING t.id, t.event_seq
), told AS (
    INSERT INTO events (tenant_id, invocation_id, seq, event, occurred_at, attempt, effect_sent)
    SELECT $1, m.id, m.event_seq - 2 + e.n, e.event, clock.now, 1, false
    FROM moved m CROSS JOIN clock
    CROSS JOIN (VALUES (1, 'approval.decided'), (2, 'tool.call.authorized')) AS e (n, event)
)
SELECT m.id, m.event_seq, clock.now FROM moved m CROSS JOIN clock
