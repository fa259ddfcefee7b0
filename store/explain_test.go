package store

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/internal/localpg/testcluster"
)

// hotStatements are the statements that every call passes, with what they must
// reach by which index.
func hotStatements() map[string]string {
	return map[string]string{
		"admit_runs": admitRunsSQL, "admit_facts": admitFactsSQL, "admit_existing": admitExistingSQL, "admit_counters": admitCountersSQL,
		"admit_insert": admitInsertSQL, "admit_run_update": admitRunUpdateSQL, "counters_upsert": countersUpsertSQL,
		"claim_lock": claimLockSQL, "claim": claimSQL, "mark": markSQL, "heartbeat": heartbeatSQL, "end": endSQL,
	}
}

// forbiddenPlan is what grows with the tables: a scan of a whole table or of a
// whole partial index, and joins that read one side entirely.
var forbiddenPlan = regexp.MustCompile(
	`Seq Scan on (tool_invocations|invocation_leases|events|call_counters|runs|sessions)\b|Hash Join|Hash Left Join|Merge Join|Merge Left Join|using open_calls`)

// fillSQL makes finished calls with their history, as many as $1 says, in runs
// of twenty.
const fillSQL = `
INSERT INTO runs (tenant_id, id, session_id, deadline_at, status, ended_at)
SELECT 't', gen_random_uuid(), gen_random_uuid(), now(), 'ended', now() FROM generate_series(1, %[1]d / 20);
INSERT INTO tool_invocations (tenant_id, id, session_id, run_id, step_number, call_id, tool_name, tool_version, target_kind, side_effect,
	idempotency_class, canonical_arguments, normalized_arguments_hash, idempotency_key, argument_trust, origin_trust, proposal_n,
	status, claim_id, event_seq, deadline_at, outcome_status, item, started_at, completed_at)
SELECT r.tenant_id, gen_random_uuid(), r.session_id, r.id, step, 'call', 'demo.echo', '1', 'in_process', 'none',
	'read_only', '{}', md5(r.id::text || step), md5(r.id::text || step), '{}', 'user', 0, 'succeeded', r.id, 4, now(), 'succeeded', '{}', now(), now()
FROM runs r CROSS JOIN generate_series(1, 20) step;
INSERT INTO call_counters (tenant_id, run_id, normalized_arguments_hash, tool_name, outcome_status, reason_code, count, step_number)
SELECT tenant_id, run_id, normalized_arguments_hash, tool_name, '', '', 1, step_number FROM tool_invocations;
INSERT INTO events (tenant_id, invocation_id, seq, event, attempt, effect_sent)
SELECT tenant_id, id, 1, 'tool.call.proposed', 1, false FROM tool_invocations;
ANALYZE;`

// emptyDatabase gives the address of a migrated database of the test's own.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	cluster, err := testcluster.Shared(ctx)
	if err != nil {
		t.Fatalf("test cluster: %v", err)
	}
	db, err := cluster.Empty(ctx)
	if err != nil {
		t.Fatalf("database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := db.Drop(ctx); err != nil {
			t.Errorf("drop: %v", err)
		}
	})
	if err := Migrate(ctx, db.URL()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return db.URL()
}

// connect gives a connection with the settings of a lane, or, with an empty
// role, of nobody in particular.
func connect(t *testing.T, url, role string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if role != "" {
		config, err = laneConfig(url, role, "test")
	}
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// explain gives the generic plan of a statement on a connection.
func explain(t *testing.T, conn *pgx.Conn, name, sql string) string {
	t.Helper()
	if _, err := conn.Exec(t.Context(), "PREPARE hot_"+name+" AS "+sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	arguments := strings.TrimSuffix(strings.Repeat("NULL,", parameters(sql)), ",")
	rows, err := conn.Query(t.Context(), fmt.Sprintf("EXPLAIN EXECUTE hot_%s(%s)", name, arguments), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if _, err := conn.Exec(t.Context(), "DEALLOCATE hot_"+name, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return strings.Join(lines, "\n")
}

// parameters counts the parameters of a statement.
func parameters(sql string) int {
	n := 0
	for strings.Contains(sql, fmt.Sprintf("$%d", n+1)) {
		n++
	}
	return n
}

func TestPlansDoNotGrowWithTheTables(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{0, 200, 1000, 5000, 100_000} {
		t.Run(fmt.Sprintf("%d rows", rows), func(t *testing.T) {
			t.Parallel()
			url := emptyDatabase(t)
			if rows > 0 {
				owner := connect(t, url, "")
				if _, err := owner.Exec(t.Context(), fmt.Sprintf(fillSQL, rows), pgx.QueryExecModeSimpleProtocol); err != nil {
					t.Fatal(err)
				}
			}
			conn := connect(t, url, roleService)
			for name, sql := range hotStatements() {
				plan := explain(t, conn, name, sql)
				if found := forbiddenPlan.FindAllString(plan, -1); found != nil {
					t.Errorf("%s: %q in\n%s", name, found, plan)
				}
			}
		})
	}
}
