INSERT INTO other_events (tenant_id, id, event, run_id, data, occurred_at)
SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::uuid[], $5::jsonb[], $6::timestamptz[])
ON CONFLICT DO NOTHING
