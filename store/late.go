package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

var (
	//go:embed sql/late_check.sql
	lateCheckSQL string
	//go:embed sql/late_insert.sql
	lateInsertSQL string
)

// settleLate looks at the endings that matched no row. Either an earlier run of
// this flush had written them, and the row bears this worker's claim; or the
// call was taken from the worker, and its result is evidence for a reviewer and
// changes nothing.
func (s *Store) settleLate(ctx context.Context, c *pgx.Conn, ops []*pipeline.Ending, out []pipeline.EndVerdict) error {
	for i, e := range ops {
		if out[i].Written || e.Claim.IsZero() {
			continue
		}
		v, err := s.settleOneLate(ctx, c, e)
		if err != nil {
			return err
		}
		out[i] = v
	}
	return nil
}

func (s *Store) settleOneLate(ctx context.Context, c *pgx.Conn, e *pipeline.Ending) (pipeline.EndVerdict, error) {
	var v pipeline.EndVerdict
	err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, setTenants, e.Row.TenantID); err != nil {
			return err
		}
		var status tool.Status
		var attempt int
		var claim *[16]byte
		var done *time.Time
		err := tx.QueryRow(ctx, lateCheckSQL, e.Row.TenantID, uuid(e.Row.ID)).
			Scan(&status, &attempt, &claim, &done, &v.RunError, &v.SynthesisOnly)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if status.Terminal() && attempt == e.Attempt && idOf(claim) == e.Claim &&
			status == e.Settlement.Outcome.RowStatus() {
			v.Written, v.CompletedAt = true, timeOf(done)
			return nil
		}
		return s.insertLate(ctx, tx, e)
	})
	if err != nil {
		return v, fmt.Errorf("late result: %w", err)
	}
	return v, nil
}

func (s *Store) insertLate(ctx context.Context, tx pgx.Tx, e *pipeline.Ending) error {
	outbox := tool.NewID()
	row := *e.Row
	var at time.Time
	var sent bool
	st := &e.Settlement
	content := st.Result
	if len(content) == 0 { // the item holds the whole content
		content = st.Item
	}
	err := tx.QueryRow(ctx, lateInsertSQL, row.TenantID, uuid(row.ID), e.Attempt, string(st.Outcome), optText(st.Reason),
		optJSON(content), optJSON(st.Error), uuid(outbox)).Scan(&row.EventSeq, &at, &sent)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // told before
	}
	return err // the relay publishes it: this is no hot path
}
