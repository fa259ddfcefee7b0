UPDATE runs r SET hot_step = (
    SELECT max(c.step_number) FROM call_counters c
    WHERE c.tenant_id = r.tenant_id AND c.run_id = r.id AND c.outcome_status = '' AND c.count >= $3)
FROM unnest($1::text[], $2::uuid[]) AS u (tenant_id, id)
WHERE r.tenant_id = u.tenant_id AND r.id = u.id AND r.hot_step IS NOT NULL
