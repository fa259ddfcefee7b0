SELECT %s
FROM tool_invocations t
JOIN runs r ON r.tenant_id = t.tenant_id AND r.id = t.run_id
LEFT JOIN suspensions s ON s.tenant_id = t.tenant_id AND s.invocation_id = t.id
WHERE t.completed_at IS NULL
  AND (t.status = 'authorized' OR (t.suspended_kind IS NOT NULL AND s.answered_at IS NOT NULL))
  AND coalesce(t.hinted_at, t.created_at) < clock_timestamp() - make_interval(secs => $1)
  AND (t.parallel_group IS NULL OR t.batch_parallel OR NOT EXISTS (
      SELECT 1 FROM tool_invocations e WHERE e.tenant_id = t.tenant_id AND e.parallel_group = t.parallel_group
      AND e.batch_position < t.batch_position AND e.completed_at IS NULL))
ORDER BY t.created_at
LIMIT $2
