SELECT t.id
FROM (
    SELECT t.tenant_id, t.id
    FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY AS g (tenant_id, grp, ord)
    JOIN tool_invocations t ON t.tenant_id = g.tenant_id AND t.parallel_group = g.grp
    WHERE g.ord BETWEEN 1 AND 1000000 AND t.status NOT IN ('succeeded', 'failed', 'denied', 'uncertain')
    UNION
    SELECT s.tenant_id, s.id FROM unnest($3::text[], $4::uuid[]) WITH ORDINALITY AS s (tenant_id, id, ord)
    WHERE s.ord BETWEEN 1 AND 1000000
) k
JOIN tool_invocations t ON t.tenant_id = k.tenant_id AND t.id = k.id
ORDER BY t.id
FOR UPDATE OF t
