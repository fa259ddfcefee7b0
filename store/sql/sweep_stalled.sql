SELECT %s
FROM tool_invocations t
JOIN runs r ON r.tenant_id = t.tenant_id AND r.id = t.run_id
LEFT JOIN suspensions s ON s.tenant_id = t.tenant_id AND s.invocation_id = t.id
WHERE t.completed_at IS NULL
  AND (t.status = 'authorized' OR (t.suspended_kind IS NOT NULL AND s.answered_at IS NOT NULL))
  AND coalesce(t.hinted_at, t.created_at) < clock_timestamp() - make_interval(secs => $1)
  -- Only what a claim would pick: the head of a sequential batch, and of a
  -- parallel one as many as its window has room for.
  AND (t.parallel_group IS NULL OR (
      SELECT count(*) FROM tool_invocations e
      LEFT JOIN invocation_leases l ON l.tenant_id = e.tenant_id AND l.invocation_id = e.id AND l.until > clock_timestamp()
      WHERE e.tenant_id = t.tenant_id AND e.parallel_group = t.parallel_group AND e.completed_at IS NULL
      AND (e.batch_position < t.batch_position AND (NOT t.batch_parallel OR e.status = 'authorized') OR t.batch_parallel AND l.invocation_id IS NOT NULL)
  ) < CASE WHEN t.batch_parallel THEN $3 ELSE 1 END)
ORDER BY t.created_at
LIMIT $2
