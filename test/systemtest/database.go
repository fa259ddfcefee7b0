package systemtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// Await returns once condition holds; it asks every few milliseconds and fails
// the test when patience ends.
func Await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// SQL is the superuser's view of a system's database. Safe for concurrent use.
type SQL struct {
	Pool *pgxpool.Pool
	ctx  context.Context //nolint:containedctx // the test's
}

// SQL connects to the database as its superuser, past every policy, until the
// test ends.
func (s *System) SQL(t testing.TB) *SQL {
	t.Helper()
	return OpenSQL(t, s.Database)
}

// OpenSQL connects to a database as [System.SQL] does.
func OpenSQL(t testing.TB, url string) *SQL {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("database: %v", err)
	}
	c.MaxConns, c.ConnConfig.RuntimeParams["application_name"] = 4, "test"
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatalf("database: %v", err)
	}
	t.Cleanup(pool.Close)
	return &SQL{Pool: pool, ctx: context.WithoutCancel(t.Context())}
}

// Exec runs a statement and gives the number of rows it touched.
func (s *SQL) Exec(t testing.TB, sql string, args ...any) int64 {
	t.Helper()
	tag, err := s.Pool.Exec(s.ctx, sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

// Count gives the one number that a query selects.
func (s *SQL) Count(t testing.TB, sql string, args ...any) int {
	t.Helper()
	return Value[int](t, s, sql, args...)
}

// Await waits until the boolean that a query selects is true.
func (s *SQL) Await(t testing.TB, sql string, args ...any) {
	t.Helper()
	Await(t, sql, func() bool { return Value[bool](t, s, sql, args...) })
}

// Value gives the one value that a query selects.
func Value[T any](t testing.TB, s *SQL, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := s.Pool.QueryRow(s.ctx, sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// Column gives the one column that a query selects.
func Column[T any](t testing.TB, s *SQL, sql string, args ...any) []T {
	t.Helper()
	rows, err := s.Pool.Query(s.ctx, sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}

// Hold runs a statement in a transaction and keeps it open, with its locks and
// unseen by others, until the function that it returns is called: with true to
// commit. What the test forgets is rolled back at its end.
func (s *SQL) Hold(t testing.TB, sql string, args ...any) func(commit bool) {
	t.Helper()
	tx, err := s.Pool.Begin(s.ctx)
	if err == nil {
		_, err = tx.Exec(s.ctx, sql, args...)
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	t.Cleanup(func() { _ = tx.Rollback(s.ctx) })
	return func(commit bool) {
		t.Helper()
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(s.ctx); err != nil {
			t.Fatalf("end of the transaction: %v", err)
		}
	}
}

// AwaitBlocked waits until a connection of the given application name waits for
// a lock; a store's lanes are called "toolbus admit", "toolbus claim", "toolbus
// mark", "toolbus end", its other connections "toolbus".
func (s *SQL) AwaitBlocked(t testing.TB, application string, connections int) {
	t.Helper()
	s.Await(t, `SELECT count(*) >= $2 FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1 AND wait_event_type = 'Lock'`, application, connections)
}

// invariants are queries that find nothing in a consistent database.
var invariants = map[string]string{
	"running without lease or suspension": `SELECT count(*) FROM tool_invocations t WHERE t.status = 'running' AND t.suspended_kind IS NULL
		AND NOT EXISTS (SELECT 1 FROM invocation_leases l WHERE l.tenant_id = t.tenant_id AND l.invocation_id = t.id)`,
	"lease of a call that is not running": `SELECT count(*) FROM invocation_leases l JOIN tool_invocations t
		ON t.tenant_id = l.tenant_id AND t.id = l.invocation_id WHERE t.status <> 'running' OR t.attempt_number <> l.attempt OR t.claim_id <> l.claim_id`,
	"two rows of one key": `SELECT count(*) FROM (SELECT 1 FROM tool_invocations GROUP BY tenant_id, idempotency_key HAVING count(*) > 1) x`,
	"gap in the events of a call": `SELECT count(*) FROM (SELECT 1 FROM tool_invocations t JOIN events e ON e.tenant_id = t.tenant_id AND e.invocation_id = t.id
		GROUP BY t.tenant_id, t.id, t.event_seq HAVING count(*) <> t.event_seq OR max(e.seq) <> t.event_seq) x`,
	"more or fewer than one end": `SELECT count(*) FROM tool_invocations t WHERE t.completed_at IS NOT NULL AND 1 <> (SELECT count(*) FROM events e
		WHERE e.tenant_id = t.tenant_id AND e.invocation_id = t.id AND e.event IN ('tool.call.completed','tool.call.failed','tool.call.denied','tool.call.uncertain'))`,
	"deadlock": `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`,
}

// CheckInvariants fails the test if the database contradicts itself.
func (s *SQL) CheckInvariants(t testing.TB) {
	t.Helper()
	for what, sql := range invariants {
		if n := s.Count(t, sql); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
}
