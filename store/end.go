package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

var (
	//go:embed sql/end.sql
	endSQL string
	//go:embed sql/end_lock_runs.sql
	endLockRunsSQL string
	//go:embed sql/end_lock_calls.sql
	endLockCallsSQL string
	//go:embed sql/end_expired_leases.sql
	endExpiredLeasesSQL string
	//go:embed sql/end_count.sql
	endCountSQL string
	//go:embed sql/end_trip.sql
	endTripSQL string
	//go:embed sql/end_evidence.sql
	endEvidenceSQL string
	//go:embed sql/end_hot.sql
	endHotSQL string
)

// End writes the end of one call: step 13, and every other way in which a call
// ends. A verdict that was not Written means that the row is in another state
// than the operation expected: for a worker, that its call was taken from it.
// It waits for the verdict whatever happens to ctx after the handover. Errors:
// [ErrStopped], [ErrUnstorable].
func (s *Store) End(ctx context.Context, e *pipeline.Ending) (pipeline.EndVerdict, error) {
	return s.end.do(ctx, e)
}

// heavy endings touch the counters or the run: they take the run's lock first.
func heavy(e *pipeline.Ending) bool {
	return e.HotRun || e.Settlement.Evidence != "" ||
		e.Settlement.Outcome == tool.OutcomeDenied || e.Settlement.Outcome == tool.OutcomeUncertain
}

func endingSize(e *pipeline.Ending) int {
	return 1024 + len(e.Settlement.Item) + len(e.Settlement.Result) + len(e.Settlement.Error)
}

// endingKeys keep two heavy endings of one run out of the same flush: each must
// see what the other did.
func endingKeys(e *pipeline.Ending) []string {
	keys := []string{"c" + e.Row.TenantID + "/" + string(e.Row.ID[:])}
	if heavy(e) {
		keys = append(keys, "r"+e.Row.TenantID+"/"+string(e.Row.RunID[:]))
	}
	return keys
}

func (s *Store) flushEnd(ctx context.Context, c *pgx.Conn, ops []*pipeline.Ending) ([]pipeline.EndVerdict, error) {
	w := newEndWriter(ops)
	b := &pgx.Batch{}
	b.Queue(setTenants, tenantSet(w.tenants))
	w.queue(b)
	res := c.SendBatch(ctx, b)
	_, err := res.Exec()
	var out []pipeline.EndVerdict
	if err == nil {
		out, err = w.scan(res)
	}
	if err := errors.Join(err, res.Close()); err != nil {
		return nil, fmt.Errorf("end: %w", err)
	}
	w.announce(s.announce)
	if err := s.settleLate(ctx, c, ops, out); err != nil {
		return nil, err
	}
	return out, nil
}

// endWriter turns endings into the statements of one transaction; the flush of
// the lane and the transactions of commands share it.
type endWriter struct {
	ops     []*pipeline.Ending
	order   []int
	tenants map[string]bool
	outbox  map[string]tool.ID
	owed    map[string]*pipeline.Announcement
	before  int // statements before the one that ends
}

func newEndWriter(ops []*pipeline.Ending) *endWriter {
	w := &endWriter{ops: ops, tenants: map[string]bool{}, outbox: map[string]tool.ID{}, owed: map[string]*pipeline.Announcement{}}
	w.order = sortedByID(ops, func(e *pipeline.Ending) tool.ID { return e.Row.ID })
	for _, e := range ops {
		if !w.tenants[e.Row.TenantID] {
			w.tenants[e.Row.TenantID] = true
			w.outbox[e.Row.TenantID] = tool.NewID()
		}
	}
	return w
}

func (w *endWriter) queue(b *pgx.Batch) {
	start := b.Len()
	w.queueLocks(b)
	w.queueCounts(b)
	w.before = b.Len() - start
	w.queueEnd(b)
}

func (w *endWriter) queueLocks(b *pgx.Batch) {
	type key struct {
		tenant string
		id     tool.ID
	}
	var runs []key
	var callTenant, leaseTenant column[string]
	var call, lease column[[16]byte]
	for _, i := range w.order {
		e := w.ops[i]
		if heavy(e) {
			runs = append(runs, key{e.Row.TenantID, e.Row.RunID})
		}
		if heavy(e) || e.LeaseOver {
			callTenant.add(e.Row.TenantID)
			call.add(e.Row.ID)
		}
		if e.LeaseOver {
			leaseTenant.add(e.Row.TenantID)
			lease.add(e.Row.ID)
		}
	}
	if len(runs) > 0 {
		slices.SortFunc(runs, func(a, b key) int { return slices.Compare(a.id[:], b.id[:]) })
		var tenant column[string]
		var run column[[16]byte]
		for _, k := range runs {
			tenant.add(k.tenant)
			run.add(k.id)
		}
		b.Queue(endLockRunsSQL, tenant, run)
	}
	if len(call) > 0 {
		b.Queue(endLockCallsSQL, callTenant, call)
	}
	if len(lease) > 0 {
		b.Queue(endExpiredLeasesSQL, leaseTenant, lease)
	}
}

func (w *endWriter) queueCounts(b *pgx.Batch) {
	var tenant, expect, outcome, reason, runTenant, evTenant, evidence, hotTenant column[string]
	var id, run, evID, evClaim, hotRun column[[16]byte]
	var attempt, evAttempt column[int32]
	for _, i := range w.order {
		e := w.ops[i]
		if o := e.Settlement.Outcome; o == tool.OutcomeDenied || o == tool.OutcomeUncertain {
			tenant.add(e.Row.TenantID)
			id.add(e.Row.ID)
			attempt.add(int32(e.Attempt)) //nolint:gosec // bounded by maximum_attempts
			expect.add(string(e.Expect))
			outcome.add(string(o))
			reason.add(e.Settlement.Reason)
			runTenant.add(e.Row.TenantID)
			run.add(e.Row.RunID)
		}
		if e.Settlement.Evidence != "" {
			evTenant.add(e.Row.TenantID)
			evID.add(e.Row.ID)
			evAttempt.add(int32(e.Attempt)) //nolint:gosec // bounded by maximum_attempts
			evClaim.add(e.Claim)
			evidence.add(e.Settlement.Evidence)
			hotTenant.add(e.Row.TenantID)
			hotRun.add(e.Row.RunID)
		}
	}
	if len(id) > 0 {
		b.Queue(endCountSQL, tenant, id, attempt, expect, outcome, reason)
		b.Queue(endTripSQL, runTenant, run, pipeline.DeniedThreshold)
	}
	if len(evID) > 0 {
		b.Queue(endEvidenceSQL, evTenant, evID, evAttempt, evClaim, evidence, pipeline.RestartCap)
		b.Queue(endHotSQL, hotTenant, hotRun, pipeline.IdenticalThreshold-1)
	}
}

func (w *endWriter) queueEnd(b *pgx.Batch) {
	var tenant, expect, status, outcome, reason, lastEvent, outTenant column[string]
	var id, out column[[16]byte]
	var claim, artifactID column[*[16]byte]
	var attempt, ord column[int32]
	var suspended, leaseOver, truncated, isHeavy column[bool]
	var effect column[*bool]
	var item column[[]byte]
	var size column[int64]
	var artifact, result, errorJSON, firstEvent, decision, by, comment column[*string]
	for _, i := range w.order {
		e := w.ops[i]
		st := &e.Settlement
		tenant.add(e.Row.TenantID)
		id.add(e.Row.ID)
		attempt.add(int32(e.Attempt)) //nolint:gosec // bounded by maximum_attempts
		claim.add(optUUID(e.Claim))
		expect.add(string(e.Expect))
		suspended.add(e.Suspended)
		leaseOver.add(e.LeaseOver)
		effect.add(e.EffectSent)
		status.add(string(st.Outcome.RowStatus()))
		outcome.add(string(st.Outcome))
		reason.add(st.Reason)
		item.add(st.Item)
		size.add(st.OutputBytes)
		truncated.add(st.Truncated)
		artifactID.add(artifactIDOf(st.Artifact))
		artifact.add(artifactJSON(st.Artifact))
		result.add(optJSON(st.Result))
		errorJSON.add(optJSON(st.Error))
		firstEvent.add(optText(decisionEvent(e.Decision)))
		lastEvent.add(pipeline.TerminalEvent(st.Outcome))
		isHeavy.add(heavy(e))
		d, who, why := decisionColumns(e.Decision)
		decision.add(d)
		by.add(who)
		comment.add(why)
		ord.add(int32(i)) //nolint:gosec // at most a flush
	}
	for t, o := range w.outbox {
		outTenant.add(t)
		out.add(o)
	}
	b.Queue(endSQL, tenant, id, attempt, claim, expect, suspended, leaseOver, effect, status, outcome,
		reason, item, size, truncated, artifactID, artifact, result, errorJSON, firstEvent, lastEvent,
		isHeavy, decision, by, comment, ord, outTenant, out, pipeline.DeniedThreshold)
}

func artifactIDOf(a *tool.ArtifactRef) *[16]byte {
	if a == nil {
		return nil
	}
	return optUUID(a.ID)
}

func decisionEvent(d *pipeline.ApprovalDecision) string {
	switch {
	case d == nil:
		return ""
	case d.Decision == "expired":
		return pipeline.EventExpired
	default:
		return pipeline.EventDecided
	}
}

func decisionColumns(d *pipeline.ApprovalDecision) (decision, by, comment *string) {
	if d == nil {
		return nil, nil, nil
	}
	return optText(d.Decision), optText(d.By), optText(d.Comment)
}

// scan reads the results of queue, in its order.
func (w *endWriter) scan(res pgx.BatchResults) ([]pipeline.EndVerdict, error) {
	for range w.before {
		if _, err := res.Exec(); err != nil {
			return nil, err
		}
	}
	out := make([]pipeline.EndVerdict, len(w.ops))
	return out, each(res, "end", func(rows pgx.Rows) error {
		var ord, n, seq int
		var started *time.Time
		var sent bool
		v := pipeline.EndVerdict{Written: true}
		if err := rows.Scan(&ord, &n, &seq, &started, &v.CompletedAt, &sent, &v.RunError, &v.SynthesisOnly); err != nil {
			return err
		}
		out[ord] = v
		w.owe(w.ops[ord], v, n, seq, timeOf(started), sent)
		return nil
	})
}

func (w *endWriter) owe(e *pipeline.Ending, v pipeline.EndVerdict, n, seq int, started time.Time, sent bool) {
	row := *e.Row
	row.Settlement = e.Settlement
	row.Status, row.N, row.EventSeq = e.Settlement.Outcome.RowStatus(), n, seq
	row.StartedAt, row.CompletedAt = started, v.CompletedAt
	row.RunError, row.SynthesisOnly = v.RunError, v.SynthesisOnly
	a := w.owed[row.TenantID]
	if a == nil {
		a = &pipeline.Announcement{Outbox: w.outbox[row.TenantID], Tenant: row.TenantID}
		w.owed[row.TenantID] = a
	}
	if name := decisionEvent(e.Decision); name != "" {
		a.Notices = append(a.Notices, eventNotice(&row, seq-1, pipeline.EventRecord{
			Name: name, At: v.CompletedAt, Attempt: e.Attempt, EffectSent: sent,
		}))
	}
	a.Notices = append(a.Notices,
		eventNotice(&row, seq, pipeline.EventRecord{
			Name: pipeline.TerminalEvent(row.Outcome), At: v.CompletedAt, Attempt: e.Attempt, EffectSent: sent,
			Outcome: row.Outcome, Reason: row.Reason,
		}),
		pipeline.Notice{Kind: pipeline.NoticeOutcome, Ref: row.ID, Seq: n, Call: &row})
	if !row.Group.IsZero() {
		a.Notices = append(a.Notices, pipeline.Notice{Kind: pipeline.NoticeHint, Ref: row.ID, Call: &row})
	}
}

func (w *endWriter) announce(sink func(pipeline.Announcement)) {
	for _, a := range w.owed {
		sink(*a)
	}
}

// sortedByID gives the order in which a statement locks rows.
func sortedByID[T any](ops []T, id func(T) tool.ID) []int {
	order := make([]int, len(ops))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := id(ops[a]), id(ops[b])
		return slices.Compare(x[:], y[:])
	})
	return order
}

func joinScopes(scopes []string) string { return strings.Join(scopes, ",") }
