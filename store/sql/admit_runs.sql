INSERT INTO runs (tenant_id, id, session_id, deadline_at)
SELECT s.tenant_id, u.run_id, s.id, clock_timestamp() + make_interval(secs => s.run_deadline_seconds)
FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS u (tenant_id, session_id, run_id)
JOIN sessions s ON s.tenant_id = u.tenant_id AND s.id = u.session_id AND s.closed_at IS NULL
ORDER BY u.run_id
ON CONFLICT DO NOTHING
