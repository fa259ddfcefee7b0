DELETE FROM invocation_leases l
USING unnest($1::text[], $2::uuid[]) AS u (tenant_id, id)
WHERE l.tenant_id = u.tenant_id AND l.invocation_id = u.id AND l.until <= clock_timestamp()
