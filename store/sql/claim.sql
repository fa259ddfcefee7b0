WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
open AS (
    SELECT t.tenant_id, t.id, t.parallel_group AS grp, t.batch_position AS pos, t.batch_parallel AS par, g.k,
           t.run_id, t.status, t.suspended_kind, t.attempt_number, t.idempotency_class, t.effect_sent_at, t.deadline_at,
           t.normalized_arguments_hash AS hash, t.tool_name
    FROM unnest($1::text[], $2::uuid[], $3::int[]) AS g (tenant_id, grp, k)
    JOIN tool_invocations t ON t.tenant_id = g.tenant_id AND t.parallel_group = g.grp
    WHERE g.k BETWEEN 1 AND 1000000 AND t.status NOT IN ('succeeded', 'failed', 'denied', 'uncertain')
    UNION ALL
    SELECT t.tenant_id, t.id, t.id, 0, false, 1,
           t.run_id, t.status, t.suspended_kind, t.attempt_number, t.idempotency_class, t.effect_sent_at, t.deadline_at,
           t.normalized_arguments_hash, t.tool_name
    FROM unnest($4::text[], $5::uuid[]) WITH ORDINALITY AS s (tenant_id, id, ord)
    JOIN tool_invocations t ON t.tenant_id = s.tenant_id AND t.id = s.id
    WHERE s.ord BETWEEN 1 AND 1000000 AND t.status NOT IN ('succeeded', 'failed', 'denied', 'uncertain')
),
state AS (
    SELECT o.*, r.hot_step IS NOT NULL AS hot, s.answer,
        coalesce(l.claim_id = $6 AND l.until > clock.now, false) AS mine,
        coalesce(o.status = 'running' AND o.suspended_kind IS NULL AND l.until > clock.now AND l.claim_id <> $6, false) AS busy,
        CASE WHEN o.status <> 'authorized' THEN NULL
             WHEN r.status = 'cancelled' THEN 'tool.run_cancelled'
             WHEN r.status <> 'open' THEN 'tool.not_started'
             WHEN o.deadline_at <= clock.now THEN 'tool.timeout'
             WHEN EXISTS (SELECT 1 FROM call_counters c WHERE c.tenant_id = o.tenant_id AND c.run_id = o.run_id
                          AND c.normalized_arguments_hash = o.hash AND c.tool_name = o.tool_name
                          AND c.outcome_status = 'uncertain') THEN 'tool.uncertain_repeat'
        END AS over,
        CASE WHEN o.status = 'authorized' THEN true
             WHEN o.status <> 'running' OR r.status <> 'open' OR o.deadline_at <= clock.now THEN false
             WHEN o.suspended_kind IS NOT NULL THEN s.answered_at IS NOT NULL
             ELSE coalesce(l.until <= clock.now, true) AND o.attempt_number < $10
                  AND (o.idempotency_class <> 'non_idempotent' OR o.effect_sent_at IS NULL)
        END AS claimable
    FROM open o
    CROSS JOIN clock
    JOIN runs r ON r.tenant_id = o.tenant_id AND r.id = o.run_id
    LEFT JOIN invocation_leases l ON l.tenant_id = o.tenant_id AND l.invocation_id = o.id
    LEFT JOIN suspensions s ON s.tenant_id = o.tenant_id AND s.invocation_id = o.id AND o.suspended_kind IS NOT NULL
),
ranked AS (
    SELECT state.*,
        row_number() OVER (PARTITION BY tenant_id, grp ORDER BY pos) AS place,
        count(*) FILTER (WHERE busy) OVER (PARTITION BY tenant_id, grp) AS running,
        count(*) FILTER (WHERE claimable AND NOT mine) OVER (PARTITION BY tenant_id, grp ORDER BY pos) AS nth
    FROM state
),
picked AS (
    SELECT * FROM ranked
    WHERE mine OR (claimable AND CASE WHEN par THEN nth <= least(k, $9 - running) ELSE place = 1 END)
),
lease AS (
    INSERT INTO invocation_leases AS l (tenant_id, invocation_id, attempt, claim_id, owner, until)
    SELECT p.tenant_id, p.id, p.attempt_number + CASE WHEN p.status = 'authorized' THEN 0 ELSE 1 END, $6, $7,
           clock.now + make_interval(secs => $8)
    FROM picked p CROSS JOIN clock
    WHERE p.over IS NULL AND NOT p.mine
    ORDER BY p.id
    ON CONFLICT (tenant_id, invocation_id) DO UPDATE
        SET attempt = excluded.attempt, claim_id = excluded.claim_id, owner = excluded.owner, until = excluded.until, hinted_at = NULL
        WHERE l.until <= clock_timestamp()
    RETURNING l.tenant_id, l.invocation_id, l.attempt, l.until
),
taken AS (
    UPDATE tool_invocations t
    SET status = 'running', attempt_number = lease.attempt, claim_id = $6, started_at = coalesce(t.started_at, clock.now),
        event_seq = t.event_seq + 1, suspended_kind = NULL, suspended_ref = NULL
    FROM lease CROSS JOIN clock
    WHERE t.tenant_id = lease.tenant_id AND t.id = lease.invocation_id AND t.status NOT IN ('succeeded', 'failed', 'denied', 'uncertain')
    RETURNING t.*, lease.until
),
told AS (
    INSERT INTO events (tenant_id, invocation_id, seq, event, occurred_at, attempt, effect_sent)
    SELECT t.tenant_id, t.id, t.event_seq, 'tool.call.started', clock.now, t.attempt_number, t.effect_sent_at IS NOT NULL
    FROM taken t CROSS JOIN clock
),
owed AS (
    INSERT INTO outbox (tenant_id, id, refs, kinds, seqs)
    SELECT o.tenant_id, o.id, array_agg(t.id ORDER BY t.id), array_agg(1::smallint), array_agg(t.event_seq ORDER BY t.id)
    FROM taken t JOIN unnest($11::text[], $12::uuid[]) AS o (tenant_id, id) ON o.tenant_id = t.tenant_id
    GROUP BY o.tenant_id, o.id
),
result AS (
    SELECT t.tenant_id, t.id, t.session_id, t.run_id, t.step_number, t.call_id, t.tool_name, t.tool_version, t.tool_source, t.server_id,
           t.target_kind, t.side_effect, t.idempotency_class, t.canonical_arguments, t.normalized_arguments_hash, t.idempotency_key,
           t.proposal_n, t.parallel_group, t.batch_position, t.batch_parallel, t.status, t.attempt_number, t.event_seq, t.deadline_at,
           t.effect_sent_at, t.started_at, t.traceparent, t.until, NULL::text AS over
    FROM taken t
    UNION ALL
    SELECT t.tenant_id, t.id, t.session_id, t.run_id, t.step_number, t.call_id, t.tool_name, t.tool_version, t.tool_source, t.server_id,
           t.target_kind, t.side_effect, t.idempotency_class, t.canonical_arguments, t.normalized_arguments_hash, t.idempotency_key,
           t.proposal_n, t.parallel_group, t.batch_position, t.batch_parallel, t.status, t.attempt_number, t.event_seq, t.deadline_at,
           t.effect_sent_at, t.started_at, t.traceparent, coalesce(l.until, clock.now), p.over
    FROM picked p CROSS JOIN clock
    JOIN tool_invocations t ON t.tenant_id = p.tenant_id AND t.id = p.id
    LEFT JOIN invocation_leases l ON l.tenant_id = t.tenant_id AND l.invocation_id = t.id
    WHERE p.mine OR p.over IS NOT NULL
),
-- Few rows, if any: joined with all of picked, this would be quadratic.
special AS (
    SELECT tenant_id, id, hot, answer, mine FROM picked WHERE hot OR answer IS NOT NULL OR mine
)
SELECT r.*, clock.now, coalesce(p.hot, false), p.answer, coalesce(p.mine, false)
FROM result r CROSS JOIN clock
LEFT JOIN special p ON p.tenant_id = r.tenant_id AND p.id = r.id
