SELECT t.id
FROM (
    SELECT t.tenant_id, t.id
    FROM unnest($1::text[], $2::uuid[]) AS g (tenant_id, grp)
    JOIN tool_invocations t ON t.tenant_id = g.tenant_id AND t.parallel_group = g.grp
    WHERE t.completed_at IS NULL
    UNION
    SELECT s.tenant_id, s.id FROM unnest($3::text[], $4::uuid[]) AS s (tenant_id, id)
) k
JOIN tool_invocations t ON t.tenant_id = k.tenant_id AND t.id = k.id
ORDER BY t.id
FOR UPDATE OF t
