WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
ended AS (
    UPDATE tool_invocations t
    SET status = u.status, outcome_status = u.outcome, reason_code = u.reason, item = u.item, output_bytes = u.output_bytes,
        truncated = u.truncated, artifact_id = u.artifact_id, artifact = u.artifact, result = u.result, error = u.error,
        completed_at = clock.now, event_seq = t.event_seq + CASE WHEN u.first_event IS NULL THEN 1 ELSE 2 END,
        suspended_kind = NULL, suspended_ref = NULL,
        run_error = CASE WHEN u.heavy AND u.outcome = 'denied' THEN (
            SELECT r.error FROM runs r WHERE r.tenant_id = t.tenant_id AND r.id = t.run_id AND r.error = 'tool_policy_denied'
            AND EXISTS (SELECT 1 FROM call_counters c WHERE c.tenant_id = t.tenant_id AND c.run_id = t.run_id
                        AND c.normalized_arguments_hash = t.normalized_arguments_hash AND c.tool_name = t.tool_name
                        AND c.outcome_status = 'denied' AND c.reason_code = u.reason AND c.count = $28)) END,
        synthesis_only = u.heavy
            AND EXISTS (SELECT 1 FROM runs r WHERE r.tenant_id = t.tenant_id AND r.id = t.run_id AND r.status = 'open' AND r.hot_step = t.step_number)
            AND NOT EXISTS (SELECT 1 FROM tool_invocations o WHERE o.tenant_id = t.tenant_id AND o.run_id = t.run_id
                            AND o.step_number = t.step_number AND o.call_id NOT LIKE 'bridge:%' AND o.id <> t.id
                            AND o.status NOT IN ('succeeded', 'failed', 'denied', 'uncertain'))
    FROM unnest(
        $1::text[], $2::uuid[], $3::int[], $4::uuid[], $5::text[], $6::bool[], $7::bool[], $8::bool[], $9::text[], $10::text[],
        $11::text[], $12::bytea[], $13::bigint[], $14::bool[], $15::uuid[], $16::jsonb[], $17::jsonb[], $18::jsonb[], $19::text[], $20::text[],
        $21::bool[], $22::text[], $23::text[], $24::text[], $25::int[])
        AS u (tenant_id, id, attempt, claim_id, expect, suspended, lease_over, effect, status, outcome,
              reason, item, output_bytes, truncated, artifact_id, artifact, result, error, first_event, last_event,
              heavy, decision, decided_by, comment, ord)
    CROSS JOIN clock
    WHERE u.ord BETWEEN 0 AND 1000000 AND t.tenant_id = u.tenant_id AND t.id = u.id
      AND t.attempt_number = u.attempt AND t.status = u.expect AND (u.claim_id IS NULL OR t.claim_id = u.claim_id)
      AND (t.suspended_kind IS NOT NULL) = u.suspended
      AND (u.effect IS NULL OR (t.effect_sent_at IS NOT NULL) = u.effect)
      AND (NOT u.lease_over OR NOT EXISTS (SELECT 1 FROM invocation_leases l WHERE l.tenant_id = t.tenant_id AND l.invocation_id = t.id))
    RETURNING t.tenant_id, t.id, t.run_id, t.proposal_n, t.parallel_group, t.attempt_number, t.event_seq, t.started_at, t.completed_at,
              t.effect_sent_at, t.outcome_status, t.reason_code, t.run_error, t.synthesis_only,
              u.first_event, u.last_event, u.decision, u.decided_by, u.comment, u.ord
),
released AS (
    DELETE FROM invocation_leases l USING ended e WHERE l.tenant_id = e.tenant_id AND l.invocation_id = e.id
),
decided AS (
    UPDATE approvals a SET decision = e.decision, decided_at = e.completed_at, decided_by = e.decided_by, comment = e.comment
    FROM ended e
    WHERE e.decision IS NOT NULL AND a.tenant_id = e.tenant_id AND a.invocation_id = e.id AND a.decision IS NULL
),
told AS (
    INSERT INTO events (tenant_id, invocation_id, seq, event, occurred_at, attempt, effect_sent, outcome_status, reason_code)
    SELECT e.tenant_id, e.id, e.event_seq - 1, e.first_event, e.completed_at, e.attempt_number, e.effect_sent_at IS NOT NULL, NULL, NULL
    FROM ended e WHERE e.first_event IS NOT NULL
    UNION ALL
    SELECT e.tenant_id, e.id, e.event_seq, e.last_event, e.completed_at, e.attempt_number, e.effect_sent_at IS NOT NULL, e.outcome_status, e.reason_code
    FROM ended e
),
owed AS (
    INSERT INTO outbox (tenant_id, id, refs, kinds, seqs)
    SELECT o.tenant_id, o.id, array_agg(n.ref), array_agg(n.kind), array_agg(n.seq)
    FROM ended e
    JOIN unnest($26::text[], $27::uuid[]) AS o (tenant_id, id) ON o.tenant_id = e.tenant_id
    CROSS JOIN LATERAL (VALUES
        (CASE WHEN e.first_event IS NOT NULL THEN e.id END, 1::smallint, e.event_seq - 1),
        (e.id, 1::smallint, e.event_seq),
        (e.id, 2::smallint, e.proposal_n),
        (CASE WHEN e.parallel_group IS NOT NULL THEN e.id END, 4::smallint, 0)) AS n (ref, kind, seq)
    WHERE n.ref IS NOT NULL
    GROUP BY o.tenant_id, o.id
)
SELECT ord, proposal_n, event_seq, started_at, completed_at, effect_sent_at IS NOT NULL, coalesce(run_error, ''), synthesis_only
FROM ended
