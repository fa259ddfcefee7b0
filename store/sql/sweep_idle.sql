SELECT %s, t.deadline_at <= clock_timestamp(), r.status, coalesce(a.expires_at <= clock_timestamp(), false)
FROM tool_invocations t
JOIN runs r ON r.tenant_id = t.tenant_id AND r.id = t.run_id
LEFT JOIN approvals a ON a.tenant_id = t.tenant_id AND a.invocation_id = t.id AND a.decision IS NULL
WHERE t.completed_at IS NULL
  AND (t.status IN ('waiting_for_approval', 'authorized') OR t.suspended_kind IS NOT NULL)
  AND (t.deadline_at <= clock_timestamp() OR r.status <> 'open' OR a.expires_at <= clock_timestamp())
ORDER BY t.created_at
LIMIT $1
