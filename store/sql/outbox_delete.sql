DELETE FROM outbox o
USING (
    SELECT x.tenant_id, x.id FROM unnest($1::text[], $2::uuid[]) AS u (tenant_id, id)
    JOIN outbox x ON x.tenant_id = u.tenant_id AND x.id = u.id
    FOR UPDATE OF x SKIP LOCKED
) k
WHERE o.tenant_id = k.tenant_id AND o.id = k.id
