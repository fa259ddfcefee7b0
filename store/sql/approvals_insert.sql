INSERT INTO approvals (tenant_id, id, invocation_id, tool_name, tool_version, normalized_arguments_hash, policy_version, matrix_row, requested_at, expires_at)
SELECT * FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::timestamptz[], $10::timestamptz[])
