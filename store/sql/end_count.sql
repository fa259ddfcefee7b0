-- A denial or an uncertainty after admission is counted under the run's lock,
-- and only if the call is still there to be ended.
INSERT INTO call_counters AS c (tenant_id, run_id, normalized_arguments_hash, tool_name, outcome_status, reason_code, count, step_number)
SELECT t.tenant_id, t.run_id, t.normalized_arguments_hash, t.tool_name, u.outcome, u.reason, 1, t.step_number
FROM unnest($1::text[], $2::uuid[], $3::int[], $4::text[], $5::text[], $6::text[]) AS u (tenant_id, id, attempt, expect, outcome, reason)
JOIN tool_invocations t ON t.tenant_id = u.tenant_id AND t.id = u.id AND t.attempt_number = u.attempt AND t.status = u.expect
ON CONFLICT (tenant_id, run_id, normalized_arguments_hash, tool_name, outcome_status, reason_code)
DO UPDATE SET count = c.count + 1, step_number = excluded.step_number
