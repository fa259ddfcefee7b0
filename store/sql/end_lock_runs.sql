SELECT r.id FROM unnest($1::text[], $2::uuid[]) AS u (tenant_id, id)
JOIN runs r ON r.tenant_id = u.tenant_id AND r.id = u.id
ORDER BY r.id FOR UPDATE OF r
