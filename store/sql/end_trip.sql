WITH failed AS (
    UPDATE runs r SET status = 'failed', error = 'tool_policy_denied', ended_at = clock_timestamp()
    FROM unnest($1::text[], $2::uuid[]) AS u (tenant_id, id)
    WHERE r.tenant_id = u.tenant_id AND r.id = u.id AND r.status = 'open'
      AND EXISTS (SELECT 1 FROM call_counters c WHERE c.tenant_id = r.tenant_id AND c.run_id = r.id
                  AND c.outcome_status = 'denied' AND c.count >= $3)
    RETURNING r.tenant_id, r.id, r.ended_at, r.error
), told AS (
    INSERT INTO other_events (tenant_id, id, event, run_id, occurred_at, data)
    SELECT tenant_id, gen_random_uuid(), 'run.failed', id, ended_at, jsonb_build_object('run_id', id::text, 'error', error) FROM failed
    RETURNING tenant_id, id
)
-- The relay publishes it: a run fails rarely.
INSERT INTO outbox (tenant_id, id, refs, kinds, seqs)
SELECT tenant_id, gen_random_uuid(), ARRAY[id], ARRAY[5::smallint], ARRAY[0] FROM told
