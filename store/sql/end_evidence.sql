WITH u AS (
    SELECT u.*, t.run_id, t.normalized_arguments_hash AS hash, t.tool_name,
           c.evidence IS NOT NULL AND c.evidence <> u.evidence AND c.count > 1 AND r.restarts < $6 AS lowers
    FROM unnest($1::text[], $2::uuid[], $3::int[], $4::uuid[], $5::text[]) AS u (tenant_id, id, attempt, claim_id, evidence)
    JOIN tool_invocations t ON t.tenant_id = u.tenant_id AND t.id = u.id AND t.attempt_number = u.attempt
         AND t.claim_id = u.claim_id AND t.status = 'running'
    JOIN runs r ON r.tenant_id = t.tenant_id AND r.id = t.run_id
    JOIN call_counters c ON c.tenant_id = t.tenant_id AND c.run_id = t.run_id AND c.normalized_arguments_hash = t.normalized_arguments_hash
         AND c.tool_name = t.tool_name AND c.outcome_status = '' AND c.reason_code = ''
), restarted AS (
    UPDATE runs r SET restarts = r.restarts + 1 FROM u
    WHERE r.tenant_id = u.tenant_id AND r.id = u.run_id AND u.lowers
)
UPDATE call_counters c SET evidence = u.evidence, count = CASE WHEN u.lowers THEN 1 ELSE c.count END
FROM u
WHERE c.tenant_id = u.tenant_id AND c.run_id = u.run_id AND c.normalized_arguments_hash = u.hash
  AND c.tool_name = u.tool_name AND c.outcome_status = '' AND c.reason_code = ''
