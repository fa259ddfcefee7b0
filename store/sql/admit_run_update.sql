UPDATE runs r SET status = u.status, error = u.error, calls_used = u.calls_used, hot_step = u.hot_step,
       ended_at = CASE WHEN u.status = 'open' THEN NULL ELSE clock_timestamp() END
FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::int[], $6::int[]) AS u (tenant_id, id, status, error, calls_used, hot_step)
WHERE r.tenant_id = u.tenant_id AND r.id = u.id
