SELECT %s, t.deadline_at <= clock_timestamp(), r.status
FROM invocation_leases l
JOIN tool_invocations t ON t.tenant_id = l.tenant_id AND t.id = l.invocation_id AND t.completed_at IS NULL
JOIN runs r ON r.tenant_id = t.tenant_id AND r.id = t.run_id
WHERE l.until <= clock_timestamp()
  AND (l.hinted_at IS NULL OR l.hinted_at < clock_timestamp() - make_interval(secs => $1))
UNION ALL
SELECT %s, t.deadline_at <= clock_timestamp(), r.status
FROM tool_invocations t
JOIN runs r ON r.tenant_id = t.tenant_id AND r.id = t.run_id
WHERE t.completed_at IS NULL AND t.status = 'running' AND t.suspended_kind IS NULL
  AND NOT EXISTS (SELECT 1 FROM invocation_leases l WHERE l.tenant_id = t.tenant_id AND l.invocation_id = t.id)
  AND (t.hinted_at IS NULL OR t.hinted_at < clock_timestamp() - make_interval(secs => $1))
LIMIT $2
