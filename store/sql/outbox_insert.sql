INSERT INTO outbox (tenant_id, id, refs, kinds, seqs) VALUES ($1, $2, $3, $4, $5)
