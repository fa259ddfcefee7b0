package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/toolbus/toolbus/store"
)

// fillSQL makes a million finished calls in fifty thousand finished runs, with
// their leases gone and their history kept.
const fillSQL = `
SET synchronous_commit = off;
CREATE TEMP TABLE run AS SELECT gen_random_uuid() AS id, n FROM generate_series(0, 49999) n;
INSERT INTO runs (tenant_id, id, session_id, deadline_at, status, calls_used, ended_at)
SELECT 'bench', id, id, now(), 'ended', 20, now() FROM run;
INSERT INTO tool_invocations (tenant_id, id, session_id, run_id, step_number, call_id, tool_name, tool_version, target_kind, side_effect,
	idempotency_class, canonical_arguments, normalized_arguments_hash, idempotency_key, argument_trust, origin_trust, policy_version, matrix_row,
	authority, proposal_n, status, claim_id, event_seq, deadline_at, effect_sent_at, outcome_status, output_bytes, item, created_at, started_at, completed_at)
SELECT 'bench', gen_random_uuid(), run.id, run.id, step, 'call', 'bench.write', '1', 'in_process', 'platform_write',
	'idempotent', convert_to('{"number":' || step || ',"text":"' || repeat('x', 250) || '"}', 'UTF8'), md5(run.n || '/' || step) || md5('h' || step),
	md5('a' || run.n || '/' || step) || md5('b' || run.n || '/' || step), '{}', 'user', '1', 'platform_write',
	'policy', 0, 'succeeded', run.id, 4, now(), now(), 'succeeded', 300, convert_to(repeat('y', 400), 'UTF8'), now(), now(), now()
FROM run CROSS JOIN generate_series(1, 20) step;
INSERT INTO call_counters (tenant_id, run_id, normalized_arguments_hash, tool_name, outcome_status, reason_code, count, step_number)
SELECT tenant_id, run_id, normalized_arguments_hash, tool_name, '', '', 1, step_number FROM tool_invocations;
INSERT INTO events (tenant_id, invocation_id, seq, event, attempt, effect_sent)
SELECT t.tenant_id, t.id, e.seq, e.event, 1, e.seq = 4
FROM tool_invocations t CROSS JOIN (VALUES (1, 'tool.call.proposed'), (2, 'tool.call.authorized'), (3, 'tool.call.started'), (4, 'tool.call.completed')) AS e (seq, event);
VACUUM ANALYZE;
CHECKPOINT;`

// millionCell measures on a database with a million finished calls. It is filled
// once; what a repetition adds is little beside it.
func millionCell(ctx context.Context, b *bench, name string) error {
	if b.million == "" {
		fmt.Fprintln(os.Stderr, "bench: filling a table with a million calls")
		if err := b.fill(ctx, "bench_million"); err != nil {
			return err
		}
		b.million = "bench_million"
	}
	p, err := b.engines.place(ctx, b.million)
	if err != nil {
		return err
	}
	return errors.Join(b.inOneProcess(ctx, p, name, writeTool, saturation, 1), p.close(context.WithoutCancel(ctx)))
}

func (b *bench) fill(ctx context.Context, database string) error {
	if _, err := b.engines.sql(ctx, "postgres", "CREATE DATABASE "+database); err != nil {
		return err
	}
	if err := store.Migrate(ctx, b.engines.pg.URL(database)); err != nil {
		return err
	}
	_, err := b.engines.sql(ctx, database, fillSQL)
	return err
}
