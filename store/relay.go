package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

var (
	//go:embed sql/relay_take.sql
	relayTakeSQL string
	//go:embed sql/outbox_delete.sql
	outboxDeleteSQL string
)

// TakeOutbox takes what nobody has published for at least age, for five
// seconds, and commits before it returns: no transaction is held while the
// caller publishes. Any number of relays may run.
func (s *Store) TakeOutbox(ctx context.Context, age time.Duration, limit int) ([]pipeline.Announcement, error) {
	type taken struct {
		tenant string
		id     [16]byte
		refs   [][16]byte
		kinds  []int16
		seqs   []int32
		tries  int
	}
	rows, err := s.sweeper.Query(ctx, relayTakeSQL, age.Seconds(), limit)
	if err != nil {
		return nil, translate("outbox", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (taken, error) {
		var t taken
		return t, row.Scan(&t.tenant, &t.id, &t.refs, &t.kinds, &t.seqs, &t.tries)
	})
	if err != nil {
		return nil, translate("outbox", err)
	}
	facts := newNoticeFacts()
	for _, t := range all {
		for i := range t.refs {
			facts.want(t.tenant, t.refs[i], pipeline.NoticeKind(t.kinds[i]), int(t.seqs[i]))
		}
	}
	if err := facts.load(ctx, s); err != nil {
		return nil, translate("outbox", err)
	}
	out := make([]pipeline.Announcement, 0, len(all))
	for _, t := range all {
		a := pipeline.Announcement{Outbox: t.id, Tenant: t.tenant, Tries: t.tries}
		for i := range t.refs {
			if n, ok := facts.notice(t.tenant, t.refs[i], pipeline.NoticeKind(t.kinds[i]), int(t.seqs[i])); ok {
				a.Notices = append(a.Notices, n)
			}
		}
		out = append(out, a)
	}
	return out, nil
}

// Published deletes outbox rows whose messages were acknowledged. Rows that a
// relay holds just now are left to it.
func (s *Store) Published(ctx context.Context, done []pipeline.Announcement) error {
	var tenant column[string]
	var id column[[16]byte]
	for _, a := range done {
		if !a.Outbox.IsZero() {
			tenant.add(a.Tenant)
			id.add(a.Outbox)
		}
	}
	if len(id) == 0 {
		return nil
	}
	_, err := s.sweeper.Exec(ctx, outboxDeleteSQL, tenant, id)
	return translate("outbox", err)
}

// OutboxAge gives the age of the oldest unpublished entry and how many there
// are.
func (s *Store) OutboxAge(ctx context.Context) (oldest time.Duration, count int64, err error) {
	var seconds float64
	err = s.sweeper.QueryRow(ctx, `SELECT coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::float8, count(*) FROM outbox`).
		Scan(&seconds, &count)
	return time.Duration(seconds * float64(time.Second)), count, translate("outbox", err)
}

// noticeFacts loads what a set of notices is composed of.
type noticeFacts struct {
	calls     map[rowKey]*pipeline.Invocation
	events    map[eventKey]pipeline.EventRecord
	others    map[rowKey]*pipeline.OtherEvent
	approvals map[rowKey]*pipeline.Approval
}

type rowKey struct {
	tenant string
	id     tool.ID
}

type eventKey struct {
	rowKey
	seq int
}

func newNoticeFacts() *noticeFacts {
	return &noticeFacts{
		calls: map[rowKey]*pipeline.Invocation{}, events: map[eventKey]pipeline.EventRecord{},
		others: map[rowKey]*pipeline.OtherEvent{}, approvals: map[rowKey]*pipeline.Approval{},
	}
}

func (f *noticeFacts) want(tenant string, ref tool.ID, kind pipeline.NoticeKind, seq int) {
	key := rowKey{tenant, ref}
	switch kind {
	case pipeline.NoticeOther:
		f.others[key] = nil
		return
	case pipeline.NoticeEvent:
		f.events[eventKey{key, seq}] = pipeline.EventRecord{}
	case pipeline.NoticePending:
		f.approvals[key] = nil
	case pipeline.NoticeOutcome, pipeline.NoticeHint:
	}
	f.calls[key] = nil
}

func (f *noticeFacts) load(ctx context.Context, s *Store) error {
	if err := f.loadCalls(ctx, s); err != nil {
		return err
	}
	if err := f.loadEvents(ctx, s); err != nil {
		return err
	}
	if err := f.loadApprovals(ctx, s); err != nil {
		return err
	}
	return f.loadOthers(ctx, s)
}

func keyColumns[T any](keys map[rowKey]T) (column[string], column[[16]byte]) {
	var tenant column[string]
	var id column[[16]byte]
	for k := range keys {
		tenant.add(k.tenant)
		id.add(k.id)
	}
	return tenant, id
}

func (f *noticeFacts) loadCalls(ctx context.Context, s *Store) error {
	tenant, id := keyColumns(f.calls)
	rows, err := s.sweeper.Query(ctx, `SELECT `+invocationColumns+` FROM unnest($1::text[], $2::uuid[]) AS u (tenant_id, id)
		JOIN tool_invocations t ON t.tenant_id = u.tenant_id AND t.id = u.id`, tenant, id)
	if err != nil {
		return err
	}
	calls, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (pipeline.Invocation, error) { return scanInvocation(row) })
	for i := range calls {
		f.calls[rowKey{calls[i].TenantID, calls[i].ID}] = &calls[i]
	}
	return err
}

func (f *noticeFacts) loadEvents(ctx context.Context, s *Store) error {
	var tenant column[string]
	var id column[[16]byte]
	var seq column[int32]
	for k := range f.events {
		tenant.add(k.tenant)
		id.add(k.id)
		seq.add(int32(k.seq)) //nolint:gosec // event numbers are small
	}
	rows, err := s.sweeper.Query(ctx, `SELECT e.tenant_id, e.invocation_id, e.seq, e.event, e.occurred_at, e.attempt, e.effect_sent,
			coalesce(e.outcome_status, ''), coalesce(e.reason_code, '')
		FROM unnest($1::text[], $2::uuid[], $3::int[]) AS u (tenant_id, id, seq)
		JOIN events e ON e.tenant_id = u.tenant_id AND e.invocation_id = u.id AND e.seq = u.seq`, tenant, id, seq)
	if err != nil {
		return err
	}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var k eventKey
		var inv [16]byte
		var e pipeline.EventRecord
		err := row.Scan(&k.tenant, &inv, &k.seq, &e.Name, &e.At, &e.Attempt, &e.EffectSent, &e.Outcome, &e.Reason)
		k.id = inv
		f.events[k] = e
		return struct{}{}, err
	})
	return err
}

func (f *noticeFacts) loadApprovals(ctx context.Context, s *Store) error {
	tenant, id := keyColumns(f.approvals)
	rows, err := s.sweeper.Query(ctx, `SELECT a.tenant_id, a.id, a.invocation_id, a.expires_at
		FROM unnest($1::text[], $2::uuid[]) AS u (tenant_id, id)
		JOIN approvals a ON a.tenant_id = u.tenant_id AND a.invocation_id = u.id`, tenant, id)
	if err != nil {
		return err
	}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var a pipeline.Approval
		var id, inv [16]byte
		err := row.Scan(&a.TenantID, &id, &inv, &a.ExpiresAt)
		a.ID, a.InvocationID = id, inv
		f.approvals[rowKey{a.TenantID, inv}] = &a
		return struct{}{}, err
	})
	return err
}

func (f *noticeFacts) loadOthers(ctx context.Context, s *Store) error {
	tenant, id := keyColumns(f.others)
	rows, err := s.sweeper.Query(ctx, `SELECT e.tenant_id, e.id, e.event, e.run_id, e.occurred_at, e.data
		FROM unnest($1::text[], $2::uuid[]) AS u (tenant_id, id)
		JOIN other_events e ON e.tenant_id = u.tenant_id AND e.id = u.id`, tenant, id)
	if err != nil {
		return err
	}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var e pipeline.OtherEvent
		var id [16]byte
		var run *[16]byte
		var data []byte
		err := row.Scan(&e.TenantID, &id, &e.Name, &run, &e.At, &data)
		e.ID, e.RunID, e.Data = id, idOf(run), data
		f.others[rowKey{e.TenantID, id}] = &e
		return struct{}{}, err
	})
	return err
}

// notice composes one notice; false when what it names is gone.
func (f *noticeFacts) notice(tenant string, ref tool.ID, kind pipeline.NoticeKind, seq int) (pipeline.Notice, bool) {
	key := rowKey{tenant, ref}
	n := pipeline.Notice{Kind: kind, Ref: ref, Seq: seq}
	if kind == pipeline.NoticeOther {
		n.Other = f.others[key]
		return n, n.Other != nil
	}
	if n.Call = f.calls[key]; n.Call == nil {
		return n, false
	}
	switch kind {
	case pipeline.NoticeEvent:
		n.Event = f.events[eventKey{key, seq}]
		return n, n.Event.Name != ""
	case pipeline.NoticeOutcome:
		return n, n.Call.Terminal()
	case pipeline.NoticePending:
		n.Approval = f.approvals[key]
		return n, n.Call.Status == tool.WaitingForApproval || n.Call.Status == tool.Authorized || n.Call.Status == tool.Running
	case pipeline.NoticeHint:
		return n, !n.Call.Terminal() || !n.Call.Group.IsZero()
	case pipeline.NoticeOther:
	}
	return n, false
}
