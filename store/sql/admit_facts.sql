SELECT u.ord, clock_timestamp(), s.closed_at IS NOT NULL,
       r.session_id, r.status, coalesce(r.error, ''), r.deadline_at, r.calls_used, r.restarts, coalesce(r.hot_step, -1),
       coalesce((SELECT array_agg(v.scope) FROM revocations v
                 WHERE v.tenant_id = u.tenant_id AND v.principal = s.principal), '{}')
FROM unnest($1::text[], $2::uuid[], $3::uuid[]) WITH ORDINALITY AS u (tenant_id, session_id, run_id, ord)
JOIN runs r ON r.tenant_id = u.tenant_id AND r.id = u.run_id
JOIN sessions s ON s.tenant_id = u.tenant_id AND s.id = u.session_id
WHERE u.ord BETWEEN 1 AND 1000000
ORDER BY r.id
FOR UPDATE OF r
