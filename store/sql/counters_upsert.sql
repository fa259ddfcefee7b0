INSERT INTO call_counters AS c (tenant_id, run_id, normalized_arguments_hash, tool_name, outcome_status, reason_code, count, step_number, evidence)
SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[], $8::int[], $9::text[])
ON CONFLICT (tenant_id, run_id, normalized_arguments_hash, tool_name, outcome_status, reason_code)
DO UPDATE SET count = excluded.count, step_number = excluded.step_number, evidence = excluded.evidence
