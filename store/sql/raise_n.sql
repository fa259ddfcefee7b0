UPDATE tool_invocations t SET proposal_n = greatest(t.proposal_n, u.n)
FROM unnest($1::text[], $2::uuid[], $3::int[]) AS u (tenant_id, id, n)
WHERE t.tenant_id = u.tenant_id AND t.id = u.id
