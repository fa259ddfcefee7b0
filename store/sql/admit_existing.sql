SELECT u.ord, t.id, t.session_id, t.call_id, t.tool_name, t.target_kind, t.idempotency_key, t.proposal_n,
       t.parallel_group, t.batch_parallel, t.status, t.attempt_number, coalesce(t.suspended_kind, ''), coalesce(t.suspended_ref, ''),
       coalesce(t.outcome_status, ''), coalesce(t.reason_code, ''), t.item, coalesce(t.output_bytes, 0), t.truncated,
       t.artifact, coalesce(t.run_error, ''), t.synthesis_only,
       coalesce(l.until > clock_timestamp(), false), a.id, a.expires_at
FROM unnest($1::text[], $2::uuid[], $3::int[]) WITH ORDINALITY AS u (tenant_id, run_id, step, ord)
JOIN tool_invocations t ON t.tenant_id = u.tenant_id AND t.run_id = u.run_id AND t.step_number = u.step
     AND t.call_id NOT LIKE 'bridge:%'
LEFT JOIN invocation_leases l ON l.tenant_id = t.tenant_id AND l.invocation_id = t.id
LEFT JOIN approvals a ON a.tenant_id = t.tenant_id AND a.invocation_id = t.id AND t.status = 'waiting_for_approval'
WHERE u.ord BETWEEN 1 AND 1000000
ORDER BY u.ord, t.id
