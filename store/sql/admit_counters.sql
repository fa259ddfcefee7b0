SELECT u.ord, c.normalized_arguments_hash, c.tool_name, c.outcome_status, c.reason_code, c.count, c.step_number, coalesce(c.evidence, '')
FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::int[]) AS u (tenant_id, run_id, hash, tool_name, ord)
JOIN call_counters c ON c.tenant_id = u.tenant_id AND c.run_id = u.run_id
     AND c.normalized_arguments_hash = u.hash AND c.tool_name = u.tool_name
WHERE u.ord BETWEEN 0 AND 1000000
