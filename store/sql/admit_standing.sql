SELECT u.ord, a.id, a.tool, a.condition
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (tenant_id, principal, ord)
JOIN standing_authorizations a ON a.tenant_id = u.tenant_id AND a.principal = u.principal
     AND a.revoked_at IS NULL AND a.expires_at > clock_timestamp()
ORDER BY u.ord, a.id
