UPDATE outbox o SET taken_until = clock_timestamp() + interval '5 seconds', tries = o.tries + 1
FROM (
    SELECT tenant_id, id FROM outbox
    WHERE created_at < clock_timestamp() - make_interval(secs => $1)
      AND (taken_until IS NULL OR taken_until < clock_timestamp())
    ORDER BY id LIMIT $2
    FOR UPDATE SKIP LOCKED
) k
WHERE o.tenant_id = k.tenant_id AND o.id = k.id
RETURNING o.tenant_id, o.id, o.refs, o.kinds, o.seqs, o.tries
