package store

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/internal/localpg/testcluster"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// hotStatements are the statements that every call passes on a lane.
func hotStatements() map[string]string {
	return map[string]string{
		"admit_runs": admitRunsSQL, "admit_facts": admitFactsSQL, "admit_existing": admitExistingSQL, "admit_counters": admitCountersSQL,
		"admit_insert": admitInsertSQL, "admit_run_update": admitRunUpdateSQL, "counters_upsert": countersUpsertSQL,
		"claim_lock": claimLockSQL, "claim": claimSQL, "mark": markSQL, "heartbeat": heartbeatSQL, "end": endSQL,
	}
}

// forbiddenPlan is what grows with the tables: the scan of a table, or of the
// index of all open calls, and joins that read one side whole.
var forbiddenPlan = regexp.MustCompile(
	`Seq Scan on (tool_invocations|invocation_leases|events|call_counters|runs|sessions|outbox)\b|Hash (Left |Anti |Semi )?Join|Merge (Left |Anti |Semi )?Join|using open_calls`)

// broadScan is a look at the calls by less than a key.
var (
	broadScan = regexp.MustCompile(`(?m)Index (Only )?Scan using \w+ on tool_invocations.*\n +(Index Cond: .*|Filter: .*)?`)
	byKey     = regexp.MustCompile(`\b(id|run_id|parallel_group) = `)
)

// fillSQL makes finished calls with their history, in runs of twenty and batches
// of four.
const fillSQL = `
INSERT INTO runs (tenant_id, id, session_id, deadline_at, status, ended_at)
SELECT 't', gen_random_uuid(), gen_random_uuid(), now(), 'ended', now() FROM generate_series(1, %[1]d / 20);
INSERT INTO tool_invocations (tenant_id, id, session_id, run_id, step_number, call_id, tool_name, tool_version, target_kind, side_effect,
	idempotency_class, canonical_arguments, normalized_arguments_hash, idempotency_key, argument_trust, origin_trust, proposal_n,
	parallel_group, batch_position, status, claim_id, event_seq, deadline_at, outcome_status, item, started_at, completed_at)
SELECT r.tenant_id, gen_random_uuid(), r.session_id, r.id, step, 'call', 'demo.echo', '1', 'in_process', 'none',
	'read_only', '{}', md5(r.id::text || step), md5(r.id::text || step), '{}', 'user', 0,
	md5(r.id::text || step / 4)::uuid, step %% 4, 'succeeded', r.id, 4, now(), 'succeeded', '{}', now(), now()
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
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
	for _, rows := range []int{0, 100_000} {
		t.Run(fmt.Sprintf("%d rows", rows), func(t *testing.T) {
			t.Parallel()
			url := emptyDatabase(t)
			owner := connect(t, url, "")
			if rows > 0 {
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
				if rows == 0 { // without statistics one index is as good as another; see laneConn.get
					continue
				}
				for _, scan := range broadScan.FindAllString(plan, -1) {
					if !byKey.MatchString(scan) {
						t.Errorf("%s: reads more than a key names:\n%s\nin\n%s", name, scan, plan)
					}
				}
			}
			// The relay takes by age, so it may read the outbox, which is short.
			if plan := explain(t, connect(t, url, roleSweeper), "relay_take", relayTakeSQL); strings.Contains(plan, "tool_invocations") {
				t.Errorf("relay_take reads calls:\n%s", plan)
			}
		})
	}
}

// A plan made while the tables were empty must not be kept while they grow.
func TestPlansAreMadeAgain(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	config, err := laneConfig(url, roleService, "test")
	if err != nil {
		t.Fatal(err)
	}
	lane := laneConn{config: config}
	t.Cleanup(func() { lane.drop(context.WithoutCancel(t.Context())) })
	conn, err := lane.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan := func() string {
		rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE kept(NULL, NULL)", pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}
	const count = "PREPARE kept AS SELECT t.id FROM unnest($1::text[], $2::uuid[]) AS u (tenant_id, id) JOIN tool_invocations t ON t.tenant_id = u.tenant_id AND t.id = u.id"
	if _, err := conn.Exec(t.Context(), count, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	young := plan()
	// Without ANALYZE, which would have the plan made again by itself.
	fill := strings.Replace(fmt.Sprintf(fillSQL, 20_000), "ANALYZE;", "", 1)
	if _, err := connect(t, url, "").Exec(t.Context(), fill, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := lane.get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if grown := plan(); grown == young {
		t.Errorf("the plan of the empty table is kept:\n%s", grown)
	}
}

// openCallsSQL makes a run with authorized calls; their ids are returned.
const openCallsSQL = `
WITH s AS (
	INSERT INTO pins (tenant_id, sha256, tool_schema_sha256, specs) VALUES ('t', 'x', 'x', '[]') RETURNING sha256
), n AS (
	INSERT INTO sessions (tenant_id, id, request_id, principal, interactive, scopes, agent_id, agent_tools, profile, pin_sha256, run_deadline_seconds)
	SELECT 't', gen_random_uuid(), 'r', 'p', true, '{}', 'a', '{*}', 'default', sha256, 3600 FROM s RETURNING id
), r AS (
	INSERT INTO runs (tenant_id, id, session_id, deadline_at) SELECT 't', gen_random_uuid(), id, now() + interval '1 hour' FROM n RETURNING id, session_id
)
INSERT INTO tool_invocations (tenant_id, id, session_id, run_id, step_number, call_id, tool_name, tool_version, target_kind, side_effect,
	idempotency_class, canonical_arguments, normalized_arguments_hash, idempotency_key, argument_trust, origin_trust, authority, proposal_n,
	status, event_seq, deadline_at)
SELECT 't', gen_random_uuid(), r.session_id, r.id, step, 'call', 'demo.write', '1', 'in_process', 'external_write',
	'idempotent', convert_to(repeat('x', 300), 'UTF8'), md5(step::text), md5(step::text), '{}', 'user', 'policy', 0, 'authorized', 2, now() + interval '1 hour'
FROM r CROSS JOIN generate_series(1, 400) step
RETURNING id`

// Claims, watermarks and heartbeats change no column that an index names. The
// pages get room for every version of a row: with the shipped fillfactor an update
// also has to find that room, which depends on when a page was last pruned.
func TestHotUpdates(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	owner := connect(t, url, "")
	const room = `ALTER TABLE tool_invocations SET (fillfactor = 10); ALTER TABLE invocation_leases SET (fillfactor = 10)`
	if _, err := owner.Exec(t.Context(), room, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	rows, err := owner.Query(t.Context(), openCallsSQL)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	carryToTheEffect(t, s, ids)
	s.Close() // a session reports its statistics at its end
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, table := range []string{"tool_invocations", "invocation_leases"} {
		var updated, hot float64
		for updated < 2*float64(len(ids)) { // until every session has reported
			err := owner.QueryRow(ctx, `SELECT n_tup_upd::float8, n_tup_hot_upd::float8 FROM pg_stat_user_tables WHERE relname = $1`, table).Scan(&updated, &hot)
			if err != nil {
				t.Fatalf("%s: %v updates were counted: %v", table, updated, err)
			}
		}
		if hot < updated {
			t.Errorf("%s: %v of %v updates were HOT", table, hot, updated)
		}
	}
}

// carryToTheEffect claims and marks calls and heartbeats them, in flushes of
// ordinary size.
func carryToTheEffect(t *testing.T, s *Store, ids [][16]byte) {
	t.Helper()
	for chunk := range slices.Chunk(ids, 50) {
		hints := make([]pipeline.Hint, len(chunk))
		for i, id := range chunk {
			hints[i] = pipeline.Hint{Tenant: "t", Call: id}
		}
		claims, err := s.Claim(t.Context(), &pipeline.ClaimRequest{
			Hints: hints, ID: tool.NewID(), Owner: "test", Lease: time.Minute, Window: 8, MaximumAttempts: 5,
		})
		if err != nil || len(claims) != len(chunk) {
			t.Fatalf("claim: %d of %d, %v", len(claims), len(chunk), err)
		}
		beats := make([]pipeline.Heartbeat, len(claims))
		for i, c := range claims {
			m, err := s.Mark(t.Context(), &pipeline.Mark{Tenant: "t", ID: c.ID, Attempt: c.Attempt, Claim: c.ClaimID})
			if err != nil || m.Code != "" {
				t.Fatalf("mark: %v %q", err, m.Code)
			}
			beats[i] = pipeline.Heartbeat{Tenant: "t", ID: c.ID, Attempt: c.Attempt, Claim: c.ClaimID}
		}
		for range 3 {
			verdicts, err := s.Heartbeat(t.Context(), beats, time.Minute)
			if err != nil || slices.ContainsFunc(verdicts, func(v pipeline.HeartbeatVerdict) bool { return !v.Held }) {
				t.Fatalf("heartbeat: %v %v", err, verdicts)
			}
		}
	}
}
