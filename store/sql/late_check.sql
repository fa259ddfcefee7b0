SELECT t.status, t.attempt_number, t.claim_id, t.completed_at, coalesce(t.run_error, ''), t.synthesis_only
FROM tool_invocations t WHERE t.tenant_id = $1 AND t.id = $2
