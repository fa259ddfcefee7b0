WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
asked AS (
    SELECT u.*, t.effect_sent_at IS NOT NULL AS sent,
        CASE
            WHEN t.status <> 'running' OR t.attempt_number <> u.attempt OR t.claim_id IS DISTINCT FROM u.claim_id
                 OR t.suspended_kind IS NOT NULL OR coalesce(l.until <= clock.now, true) THEN 'fenced'
            WHEN r.status = 'cancelled' THEN 'tool.run_cancelled'
            WHEN r.status <> 'open' THEN 'tool.not_started'
            WHEN t.deadline_at <= clock.now THEN 'tool.timeout'
            WHEN EXISTS (SELECT 1 FROM revocations v WHERE v.tenant_id = u.tenant_id AND v.principal = s.principal
                         AND v.scope <> '*' AND v.scope = ANY (string_to_array(u.scopes, ','))) THEN 'policy.scope.missing'
            WHEN s.closed_at IS NOT NULL
                 OR EXISTS (SELECT 1 FROM revocations v WHERE v.tenant_id = u.tenant_id AND v.principal = s.principal AND v.scope = '*')
                 THEN 'policy.authority.revoked'
            WHEN t.authority = 'standing' AND NOT EXISTS (
                     SELECT 1 FROM standing_authorizations a WHERE a.tenant_id = u.tenant_id AND a.id = t.authority_id
                     AND a.revoked_at IS NULL AND a.expires_at > clock.now) THEN 'policy.authority.revoked'
            WHEN t.authority = 'approval' AND NOT EXISTS (
                     SELECT 1 FROM approvals a WHERE a.tenant_id = u.tenant_id AND a.id = t.authority_id AND a.invocation_id = t.id
                     AND a.decision = 'approved' AND a.used_at IS NOT NULL
                     AND a.tool_version = t.tool_version AND a.normalized_arguments_hash = t.normalized_arguments_hash)
                 THEN 'policy.authority.revoked'
            ELSE ''
        END AS verdict
    FROM unnest($1::text[], $2::uuid[], $3::int[], $4::uuid[], $5::text[]) WITH ORDINALITY
         AS u (tenant_id, id, attempt, claim_id, scopes, ord)
    CROSS JOIN clock
    JOIN tool_invocations t ON t.tenant_id = u.tenant_id AND t.id = u.id AND u.ord BETWEEN 1 AND 1000000
    JOIN runs r ON r.tenant_id = t.tenant_id AND r.id = t.run_id
    JOIN sessions s ON s.tenant_id = t.tenant_id AND s.id = t.session_id
    LEFT JOIN invocation_leases l ON l.tenant_id = t.tenant_id AND l.invocation_id = t.id AND l.attempt = u.attempt AND l.claim_id = u.claim_id
),
-- Every fact of the fence stands here again: what was read above may have
-- waited behind another writer of the row.
marked AS (
    UPDATE tool_invocations t SET effect_sent_at = coalesce(t.effect_sent_at, clock.now)
    FROM asked a CROSS JOIN clock
    JOIN invocation_leases l ON l.tenant_id = a.tenant_id AND l.invocation_id = a.id AND l.attempt = a.attempt AND l.claim_id = a.claim_id
    WHERE a.verdict = ''
      AND t.tenant_id = a.tenant_id AND t.id = a.id
      AND t.attempt_number = a.attempt AND t.claim_id = a.claim_id AND t.status = 'running' AND t.suspended_kind IS NULL
      AND l.until > clock_timestamp()
    RETURNING a.ord, a.sent, t.effect_sent_at
)
-- What is in neither half is fenced.
SELECT ord, verdict, sent, NULL::timestamptz FROM asked WHERE verdict <> ''
UNION ALL
SELECT ord, '', sent, effect_sent_at FROM marked
