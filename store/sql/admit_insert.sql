WITH u AS (
    SELECT * FROM unnest(
        $1::text[], $2::uuid[], $3::uuid[], $4::uuid[], $5::int[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
        $11::text[], $12::text[], $13::text[], $14::bytea[], $15::text[], $16::text[], $17::jsonb[], $18::text[], $19::text[], $20::text[],
        $21::text[], $22::uuid[], $23::int[], $24::uuid[], $25::int[], $26::bool[], $27::text[], $28::timestamptz[], $29::text[], $30::text[],
        $31::bytea[], $32::bigint[], $33::jsonb[], $34::text[], $35::bool[], $36::text[], $37::jsonb[], $38::timestamptz[])
    AS u (tenant_id, id, session_id, run_id, step_number, call_id, tool_name, tool_version, tool_source, server_id,
          target_kind, side_effect, idempotency_class, canonical_arguments, hash, idempotency_key, argument_trust, origin_trust, policy_version, matrix_row,
          authority, authority_id, proposal_n, parallel_group, batch_position, batch_parallel, status, deadline_at, outcome_status, reason_code,
          item, output_bytes, error, run_error, synthesis_only, traceparent, result, now)
), i AS (
    INSERT INTO tool_invocations (
        tenant_id, id, session_id, run_id, step_number, call_id, tool_name, tool_version, tool_source, server_id,
        target_kind, side_effect, idempotency_class, canonical_arguments, normalized_arguments_hash, idempotency_key, argument_trust, origin_trust, policy_version, matrix_row,
        authority, authority_id, proposal_n, parallel_group, batch_position, batch_parallel, status, deadline_at, outcome_status, reason_code,
        item, output_bytes, error, run_error, synthesis_only, traceparent, result, event_seq, created_at, completed_at)
    SELECT u.tenant_id, u.id, u.session_id, u.run_id, u.step_number, u.call_id, u.tool_name, u.tool_version, u.tool_source, u.server_id,
        u.target_kind, u.side_effect, u.idempotency_class, u.canonical_arguments, u.hash, u.idempotency_key, u.argument_trust, u.origin_trust, u.policy_version, u.matrix_row,
        u.authority, u.authority_id, u.proposal_n, u.parallel_group, u.batch_position, u.batch_parallel, u.status, u.deadline_at, u.outcome_status, u.reason_code,
        u.item, u.output_bytes, u.error, u.run_error, u.synthesis_only, u.traceparent, u.result, 2, u.now,
        CASE WHEN u.outcome_status IS NULL THEN NULL ELSE u.now END
    FROM u
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, id, status, outcome_status, reason_code, created_at
)
INSERT INTO events (tenant_id, invocation_id, seq, event, occurred_at, attempt, effect_sent, outcome_status, reason_code)
SELECT i.tenant_id, i.id, e.seq, e.event, i.created_at, 1, false,
       CASE WHEN e.seq = 2 THEN i.outcome_status END, CASE WHEN e.seq = 2 THEN i.reason_code END
FROM i CROSS JOIN LATERAL (VALUES
    (1, 'tool.call.proposed'),
    (2, CASE i.status WHEN 'authorized' THEN 'tool.call.authorized'
                      WHEN 'waiting_for_approval' THEN 'approval.requested'
                      WHEN 'denied' THEN 'tool.call.denied'
                      ELSE 'tool.call.failed' END)) AS e (seq, event)
