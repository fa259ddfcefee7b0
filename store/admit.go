package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

var (
	//go:embed sql/admit_runs.sql
	admitRunsSQL string
	//go:embed sql/admit_facts.sql
	admitFactsSQL string
	//go:embed sql/admit_existing.sql
	admitExistingSQL string
	//go:embed sql/admit_counters.sql
	admitCountersSQL string
	//go:embed sql/admit_standing.sql
	admitStandingSQL string
	//go:embed sql/admit_insert.sql
	admitInsertSQL string
	//go:embed sql/admit_run_update.sql
	admitRunUpdateSQL string
	//go:embed sql/counters_upsert.sql
	countersUpsertSQL string
	//go:embed sql/approvals_insert.sql
	approvalsInsertSQL string
	//go:embed sql/other_events_insert.sql
	otherEventsInsertSQL string
	//go:embed sql/raise_n.sql
	raiseSQL string
)

// errLostInsert says that a row was there which the run's lock should have
// kept out; the flush is run again and finds it.
var errLostInsert = errors.New("an invocation was inserted meanwhile")

// Admit commits one admission, all or nothing: steps 7 and 8 of every call of a
// proposal. It waits for the verdict whatever happens to ctx after the
// handover. Errors: [ErrStopped], [ErrUnstorable].
func (s *Store) Admit(ctx context.Context, a *pipeline.Admission) (pipeline.Ruling, error) {
	return s.admit.do(ctx, a)
}

func admissionSize(a *pipeline.Admission) int {
	n := 512
	for i := range a.Calls {
		n += 1024 + len(a.Calls[i].Row.Arguments)
	}
	return n
}

func admissionKeys(a *pipeline.Admission) []string {
	return []string{a.Tenant + "/" + string(a.RunID[:])}
}

func (s *Store) flushAdmit(ctx context.Context, c *pgx.Conn, ops []*pipeline.Admission) ([]pipeline.Ruling, error) {
	order := sortedByRun(ops)
	facts, err := readFacts(ctx, c, order)
	if err != nil {
		return nil, err
	}
	rulings := make([]pipeline.Ruling, len(order))
	owed := newLedger()
	for i, a := range order {
		rulings[i] = a.Fold(facts[i])
		oweAdmission(owed, a, &rulings[i], facts[i])
	}
	if err := writeRulings(ctx, c, order, rulings, facts, owed); err != nil {
		return nil, err
	}
	for _, a := range owed.announcements() {
		s.announce(a)
	}
	byOp := make(map[*pipeline.Admission]pipeline.Ruling, len(order))
	for i, a := range order {
		byOp[a] = rulings[i]
	}
	out := make([]pipeline.Ruling, len(ops))
	for i, a := range ops {
		out[i] = byOp[a]
	}
	return out, nil
}

// sortedByRun fixes the lock order.
func sortedByRun(ops []*pipeline.Admission) []*pipeline.Admission {
	order := slices.Clone(ops)
	slices.SortFunc(order, func(a, b *pipeline.Admission) int { return slices.Compare(a.RunID[:], b.RunID[:]) })
	return order
}

func readFacts(ctx context.Context, c *pgx.Conn, ops []*pipeline.Admission) ([]pipeline.Facts, error) {
	tenants := map[string]bool{}
	n := len(ops)
	tenant, session, run := make([]string, n), make([][16]byte, n), make([][16]byte, n)
	step, principal := make([]int32, n), make([]string, n)
	standing := false
	var ct, ch, cn []string
	var cr [][16]byte
	var co []int32
	for i, a := range ops {
		tenants[a.Tenant] = true
		tenant[i], session[i], run[i] = a.Tenant, a.SessionID, a.RunID
		step[i], principal[i] = int32(a.Step), a.Principal.ID //nolint:gosec // bounded by the decoder
		standing = standing || a.NeedsStanding()
		for j := range a.Calls {
			row := &a.Calls[j].Row
			ct, cr = append(ct, a.Tenant), append(cr, a.RunID)
			ch, cn, co = append(ch, row.ArgumentsHash), append(cn, row.ToolName), append(co, int32(i))
		}
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(setTenants, tenantSet(tenants))
	b.Queue(admitRunsSQL, tenant, session, run)
	b.Queue(admitFactsSQL, tenant, session, run)
	b.Queue(admitExistingSQL, tenant, run, step)
	b.Queue(admitCountersSQL, ct, cr, ch, cn, co)
	if standing {
		b.Queue(admitStandingSQL, tenant, principal)
	}
	res := c.SendBatch(ctx, b)
	facts, err := scanFacts(res, ops, standing)
	return facts, errors.Join(err, res.Close())
}

func scanFacts(res pgx.BatchResults, ops []*pipeline.Admission, standing bool) ([]pipeline.Facts, error) {
	for range 3 {
		if _, err := res.Exec(); err != nil {
			return nil, fmt.Errorf("begin: %w", err)
		}
	}
	facts := make([]pipeline.Facts, len(ops))
	err := each(res, "facts", func(rows pgx.Rows) error {
		var ord int
		var f pipeline.Facts
		var sid [16]byte
		if err := rows.Scan(&ord, &f.Now, &f.SessionClosed, &sid, &f.Run.Status, &f.Run.Error, &f.Run.DeadlineAt,
			&f.Run.CallsUsed, &f.Run.Restarts, &f.Run.HotStep, &f.Revoked); err != nil {
			return err
		}
		f.SessionFound, f.Run.SessionID, f.Run.ID = true, sid, ops[ord-1].RunID
		facts[ord-1] = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := each(res, "existing", func(rows pgx.Rows) error {
		ord, e, err := scanExisting(rows, ops)
		if err == nil {
			facts[ord].Existing = append(facts[ord].Existing, e)
		}
		return err
	}); err != nil {
		return nil, err
	}
	if err := each(res, "counters", func(rows pgx.Rows) error {
		var ord int
		var k pipeline.Counter
		if err := rows.Scan(&ord, &k.Hash, &k.Tool, &k.Outcome, &k.Reason, &k.Count, &k.Step, &k.Evidence); err != nil {
			return err
		}
		facts[ord].Counters = append(facts[ord].Counters, k)
		return nil
	}); err != nil || !standing {
		return facts, err
	}
	return facts, each(res, "standing", func(rows pgx.Rows) error {
		var ord int
		var id [16]byte
		var st pipeline.StandingRow
		if err := rows.Scan(&ord, &id, &st.Tool, &st.Condition); err != nil {
			return err
		}
		st.ID = id
		facts[ord-1].Standing = append(facts[ord-1].Standing, st)
		return nil
	})
}

// each reads the next result of a batch row by row.
func each(res pgx.BatchResults, what string, scan func(pgx.Rows) error) error {
	rows, err := res.Query()
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	_, err = pgx.CollectRows(rows, func(pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, scan(rows)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func scanExisting(rows pgx.Rows, ops []*pipeline.Admission) (int, pipeline.Existing, error) {
	var e pipeline.Existing
	var ord int
	var id, session [16]byte
	var group, approval *[16]byte
	var artifact []byte
	var item []byte
	var expires *timestamp
	err := rows.Scan(&ord, &id, &session, &e.CallID, &e.ToolName, &e.Target, &e.Key, &e.N,
		&group, &e.Parallel, &e.Status, &e.Attempt, &e.SuspendedKind, &e.SuspendedRef,
		&e.Outcome, &e.Reason, &item, &e.OutputBytes, &e.Truncated,
		&artifact, &e.RunError, &e.SynthesisOnly, &e.LeaseLive, &approval, &expires)
	if err != nil {
		return 0, e, err
	}
	a := ops[ord-1]
	e.TenantID, e.RunID, e.Step = a.Tenant, a.RunID, a.Step
	e.ID, e.SessionID, e.Group, e.Item, e.Artifact = id, session, idOf(group), item, artifactOf(artifact)
	if approval != nil {
		e.Approval = &pipeline.Approval{TenantID: a.Tenant, ID: *approval, InvocationID: e.ID, ExpiresAt: timeOf(expires)}
	}
	return ord - 1, e, nil
}

func writeRulings(ctx context.Context, c *pgx.Conn, ops []*pipeline.Admission, rulings []pipeline.Ruling, facts []pipeline.Facts, owed *ledger) error {
	b := &pgx.Batch{}
	inserted := queueInserts(b, rulings, facts)
	queueRuns(b, ops, rulings)
	queueCounters(b, ops, rulings)
	queueApprovals(b, rulings)
	queueRaises(b, ops, rulings)
	queueFailedRuns(b, ops, rulings, facts, owed)
	owed.queue(b)
	b.Queue("COMMIT")
	res := c.SendBatch(ctx, b)
	if inserted > 0 {
		tag, err := res.Exec()
		if err == nil && tag.RowsAffected() != int64(2*inserted) {
			err = errLostInsert
		}
		if err != nil {
			return errors.Join(fmt.Errorf("insert: %w", err), res.Close())
		}
	}
	if err := res.Close(); err != nil {
		return fmt.Errorf("admit: %w", err)
	}
	return nil
}

// oweAdmission lists what an admission has to say to the world.
func oweAdmission(owed *ledger, a *pipeline.Admission, r *pipeline.Ruling, f pipeline.Facts) {
	approvals := make(map[tool.ID]*pipeline.Approval, len(r.Approvals))
	for i := range r.Approvals {
		approvals[r.Approvals[i].InvocationID] = &r.Approvals[i]
	}
	hints := 0
	for i := range r.Insert {
		row := &r.Insert[i]
		row.CreatedAt = f.Now
		owed.add(a.Tenant,
			eventNotice(row, 1, pipeline.EventRecord{Name: pipeline.EventProposed, At: f.Now, Attempt: 1}),
			eventNotice(row, 2, admissionEvent(row, f)))
		switch row.Status {
		case tool.Authorized:
			if hints < 1 || row.Parallel && hints < batchWindow {
				hints++
				owed.add(a.Tenant, pipeline.Notice{Kind: pipeline.NoticeHint, Ref: row.ID, Call: row})
			}
		case tool.WaitingForApproval:
			owed.add(a.Tenant, pipeline.Notice{Kind: pipeline.NoticePending, Ref: row.ID, Call: row, Approval: approvals[row.ID]})
		case tool.Proposed, tool.Running, tool.Succeeded, tool.Failed, tool.Denied, tool.Uncertain:
			row.CompletedAt = f.Now
			owed.add(a.Tenant, pipeline.Notice{Kind: pipeline.NoticeOutcome, Ref: row.ID, Seq: row.N, Call: row})
		}
	}
	for i := range r.Answer {
		e := &r.Answer[i]
		idle := e.Status == tool.WaitingForApproval || e.SuspendedKind != ""
		switch {
		case e.Terminal():
			owed.add(a.Tenant, pipeline.Notice{Kind: pipeline.NoticeOutcome, Ref: e.ID, Seq: a.N, Call: &e.Invocation})
			continue
		case !idle:
			owed.add(a.Tenant, pipeline.Notice{Kind: pipeline.NoticeHint, Ref: e.ID, Call: &e.Invocation})
		}
		if idle || e.Asked && e.Status == tool.Authorized {
			owed.add(a.Tenant, pipeline.Notice{Kind: pipeline.NoticePending, Ref: e.ID, Call: &e.Invocation, Approval: e.Approval})
		}
	}
}

// batchWindow bounds the hints of an admission; the claim keeps the configured
// window, a hint too many finds nothing.
const batchWindow = 8

func admissionEvent(row *pipeline.Invocation, f pipeline.Facts) pipeline.EventRecord {
	e := pipeline.EventRecord{At: f.Now, Attempt: 1}
	switch row.Status {
	case tool.Authorized:
		e.Name = pipeline.EventAuthorized
	case tool.WaitingForApproval:
		e.Name = pipeline.EventAsked
	case tool.Proposed, tool.Running, tool.Succeeded, tool.Failed, tool.Denied, tool.Uncertain:
		e.Name, e.Outcome, e.Reason = pipeline.TerminalEvent(row.Outcome), row.Outcome, row.Reason
	}
	return e
}

func eventNotice(row *pipeline.Invocation, seq int, e pipeline.EventRecord) pipeline.Notice {
	return pipeline.Notice{Kind: pipeline.NoticeEvent, Ref: row.ID, Seq: seq, Call: row, Event: e}
}
