UPDATE runs r SET status = 'failed', error = 'tool_policy_denied', ended_at = clock_timestamp()
FROM unnest($1::text[], $2::uuid[]) AS u (tenant_id, id)
WHERE r.tenant_id = u.tenant_id AND r.id = u.id AND r.status = 'open'
  AND EXISTS (SELECT 1 FROM call_counters c WHERE c.tenant_id = r.tenant_id AND c.run_id = r.id
              AND c.outcome_status = 'denied' AND c.count >= $3)
RETURNING r.tenant_id, r.id
