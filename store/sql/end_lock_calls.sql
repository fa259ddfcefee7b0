SELECT t.id FROM unnest($1::text[], $2::uuid[]) AS u (tenant_id, id)
JOIN tool_invocations t ON t.tenant_id = u.tenant_id AND t.id = u.id
ORDER BY t.id FOR UPDATE OF t
