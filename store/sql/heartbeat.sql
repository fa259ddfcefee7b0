WITH held AS (
    UPDATE invocation_leases l SET until = clock_timestamp() + make_interval(secs => $5)
    FROM unnest($1::text[], $2::uuid[], $3::int[], $4::uuid[]) WITH ORDINALITY AS u (tenant_id, id, attempt, claim_id, ord)
    WHERE u.ord BETWEEN 1 AND 1000000 AND l.tenant_id = u.tenant_id AND l.invocation_id = u.id AND l.attempt = u.attempt AND l.claim_id = u.claim_id
      AND l.until > clock_timestamp()
    RETURNING u.ord, l.tenant_id, l.invocation_id
)
SELECT h.ord, r.status <> 'open'
FROM held h
JOIN tool_invocations t ON t.tenant_id = h.tenant_id AND t.id = h.invocation_id
JOIN runs r ON r.tenant_id = t.tenant_id AND r.id = t.run_id
