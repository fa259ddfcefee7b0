package store

import (
	"context"
	_ "embed"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

var (
	//go:embed sql/sweep_leases.sql
	sweepLeasesSQL string
	//go:embed sql/sweep_stalled.sql
	sweepStalledSQL string
	//go:embed sql/sweep_idle.sql
	sweepIdleSQL string
)

// Sweeps look across tenants, with a role of their own that may read and hint.
// What they find is a snapshot: every action on it states again what it was
// decided on.

// Swept is a call that a sweep found.
type Swept = pipeline.Swept

func (s *Store) sweep(ctx context.Context, sql string, extra func(*Swept) []any, args ...any) ([]Swept, error) {
	rows, err := s.sweeper.Query(ctx, strings.ReplaceAll(sql, "%s", invocationColumns), args...)
	if err != nil {
		return nil, translate("sweep", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Swept, error) {
		var w Swept
		var err error
		w.Invocation, err = scanInvocation(row, extra(&w)...)
		return w, err
	})
	return out, translate("sweep", err)
}

// ExpiredLeases lists running calls whose lease has ended, or that have none,
// and that were not hinted within retry.
func (s *Store) ExpiredLeases(ctx context.Context, retry time.Duration, limit int) ([]Swept, error) {
	return s.sweep(ctx, sweepLeasesSQL, func(w *Swept) []any { return []any{&w.DeadlinePassed, &w.RunStatus} }, retry.Seconds(), limit)
}

// Stalled lists calls that could be claimed and were neither claimed nor hinted
// within retry.
func (s *Store) Stalled(ctx context.Context, retry time.Duration, limit int) ([]Swept, error) {
	return s.sweep(ctx, sweepStalledSQL, func(*Swept) []any { return nil }, retry.Seconds(), limit, batchWindow)
}

// IdleEnded lists calls that no worker holds and whose time is over: deadline,
// approval or run.
func (s *Store) IdleEnded(ctx context.Context, limit int) ([]Swept, error) {
	return s.sweep(ctx, sweepIdleSQL, func(w *Swept) []any {
		return []any{&w.DeadlinePassed, &w.RunStatus, &w.ApprovalExpired}
	}, limit)
}

// Hint publishes hints for calls that a sweep found, through the outbox, and
// remembers that it did so that not every sweep of every instance does.
func (s *Store) Hint(ctx context.Context, found []Swept) error {
	owed := newLedger()
	var tenant column[string]
	var id column[[16]byte]
	for i := range found {
		owed.add(found[i].TenantID, pipeline.Notice{Kind: pipeline.NoticeHint, Ref: found[i].ID, Call: &found[i].Invocation})
		tenant.add(found[i].TenantID)
		id.add(found[i].ID)
	}
	err := pgx.BeginFunc(ctx, s.sweeper, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		for _, table := range []string{
			"tool_invocations t SET hinted_at = clock_timestamp() FROM k WHERE t.tenant_id = k.tenant_id AND t.id = k.id",
			"invocation_leases t SET hinted_at = clock_timestamp() FROM k WHERE t.tenant_id = k.tenant_id AND t.invocation_id = k.id",
		} {
			b.Queue("WITH k AS (SELECT k.tenant_id, k.id FROM unnest($1::text[], $2::uuid[]) AS k (tenant_id, id)) UPDATE "+table, tenant, id)
		}
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return translate("hint", err)
	}
	for _, a := range owed.announcements() {
		a.Outbox = tool.ID{} // a hint that is lost is found by the next sweep
		s.announce(a)
	}
	return nil
}

// Oldest gives the age of the oldest open call by status, for the gauge that
// tells a stuck state from a busy one.
func (s *Store) Oldest(ctx context.Context) (map[tool.Status]time.Duration, error) {
	rows, err := s.sweeper.Query(ctx, `SELECT status, extract(epoch FROM clock_timestamp() - min(created_at))::float8
		FROM tool_invocations WHERE completed_at IS NULL GROUP BY status`)
	if err != nil {
		return nil, translate("oldest", err)
	}
	out := map[tool.Status]time.Duration{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var status tool.Status
		var seconds float64
		err := row.Scan(&status, &seconds)
		out[status] = time.Duration(seconds * float64(time.Second))
		return struct{}{}, err
	})
	return out, translate("oldest", err)
}

// PendingApprovals counts the open approvals and gives the age of the oldest.
func (s *Store) PendingApprovals(ctx context.Context) (pending int64, oldest time.Duration, err error) {
	var seconds float64
	err = s.sweeper.QueryRow(ctx, `SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(requested_at)), 0)::float8
		FROM approvals WHERE decision IS NULL`).Scan(&pending, &seconds)
	return pending, time.Duration(seconds * float64(time.Second)), translate("approvals", err)
}

// DeadLetters counts the messages that could not be handled.
func (s *Store) DeadLetters(ctx context.Context) (count int64, err error) {
	err = s.sweeper.QueryRow(ctx, "SELECT count(*) FROM dead_letters").Scan(&count)
	return count, translate("dead letters", err)
}
