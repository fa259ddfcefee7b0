WITH late AS (
    INSERT INTO late_results (tenant_id, invocation_id, attempt, outcome_status, reason_code, result, error)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, invocation_id, attempt, arrived_at
), row AS (
    UPDATE tool_invocations t SET event_seq = t.event_seq + 1
    FROM late WHERE t.tenant_id = late.tenant_id AND t.id = late.invocation_id
    RETURNING t.tenant_id, t.id, t.event_seq, t.effect_sent_at IS NOT NULL AS sent, late.attempt, late.arrived_at
), told AS (
    INSERT INTO events (tenant_id, invocation_id, seq, event, occurred_at, attempt, effect_sent)
    SELECT tenant_id, id, event_seq, 'call.late_result', arrived_at, attempt, sent FROM row
), owed AS (
    INSERT INTO outbox (tenant_id, id, refs, kinds, seqs)
    SELECT tenant_id, $8, ARRAY[id], ARRAY[1::smallint], ARRAY[event_seq] FROM row
)
SELECT event_seq, arrived_at, sent FROM row
