SELECT clock_timestamp(), r.status, t.status, t.deadline_at, a.invocation_id, a.tool_name, a.tool_version, a.normalized_arguments_hash,
       a.policy_version, a.matrix_row, a.expires_at, coalesce(a.decision, ''),
       coalesce((SELECT array_agg(v.scope) FROM revocations v
                 WHERE v.tenant_id = t.tenant_id AND v.principal = s.principal), '{}')
FROM approvals a
JOIN tool_invocations t ON t.tenant_id = a.tenant_id AND t.id = a.invocation_id
     AND t.tool_version = a.tool_version AND t.normalized_arguments_hash = a.normalized_arguments_hash
JOIN runs r ON r.tenant_id = t.tenant_id AND r.id = t.run_id
JOIN sessions s ON s.tenant_id = t.tenant_id AND s.id = t.session_id
WHERE a.tenant_id = $1 AND a.id = $2
