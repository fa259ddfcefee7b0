package store

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// Commands are rare: each is a transaction of its own, in which its effect, its
// recorded result and the event that says so are written together. A command id
// that is known changes nothing and gives the recorded result again.

const (
	commandKnownSQL = `SELECT c.result, coalesce(c.code, ''), c.settled_at, c.kind, c.event_id, e.data
		FROM commands c JOIN other_events e ON e.tenant_id = c.tenant_id AND e.id = c.event_id
		WHERE c.tenant_id = $1 AND c.command_id = $2`
	commandInsertSQL = `INSERT INTO commands (tenant_id, command_id, kind, actor, result, code, event_id, settled_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
)

// commandTx is a command under way.
type commandTx struct {
	pgx.Tx
	s    *Store
	m    pipeline.CommandMeta
	now  time.Time
	owed *ledger
	late []*endWriter
}

// command runs apply once per command id. apply returns the code with which the
// command is refused, empty when it was applied; what it wrote stands either
// way.
func (s *Store) command(ctx context.Context, m pipeline.CommandMeta, apply func(ctx context.Context, tx *commandTx) (string, error)) (pipeline.CommandResult, error) {
	var out pipeline.CommandResult
	c := &commandTx{s: s, m: m, owed: newLedger()}
	err := s.inTenant(ctx, m.Tenant, func(tx pgx.Tx) error {
		c.Tx = tx
		// One command id at a time: two deliveries of it must not both find nothing.
		err := tx.QueryRow(ctx, "SELECT clock_timestamp() FROM (SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 0))) l", m.Tenant, m.ID).Scan(&c.now)
		if err != nil {
			return err
		}
		known, err := c.known(ctx, &out)
		if err != nil || known {
			return err
		}
		code, err := apply(ctx, c)
		if err != nil {
			return err
		}
		out.Result, out.Code, out.Kind, out.SettledAt = "applied", code, m.Kind, c.now
		if code != "" {
			out.Result = "refused"
		}
		return c.settle(ctx, out)
	})
	if err != nil {
		return out, translate("command "+m.Kind, err)
	}
	for _, a := range c.owed.announcements() {
		s.announce(a)
	}
	for _, w := range c.late {
		w.announce(s.announce)
	}
	return out, nil
}

func (c *commandTx) known(ctx context.Context, out *pipeline.CommandResult) (bool, error) {
	var event [16]byte
	var data []byte
	err := c.QueryRow(ctx, commandKnownSQL, c.m.Tenant, c.m.ID).
		Scan(&out.Result, &out.Code, &out.SettledAt, &out.Kind, &event, &data)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	out.Repeated = true
	c.owed.add(c.m.Tenant, pipeline.Notice{Kind: pipeline.NoticeOther, Ref: event, Other: &pipeline.OtherEvent{
		TenantID: c.m.Tenant, ID: event, Name: pipeline.EventSettled, At: out.SettledAt, Data: data,
	}})
	return true, c.writeOutbox(ctx)
}

func (c *commandTx) settle(ctx context.Context, out pipeline.CommandResult) error {
	data, err := json.Marshal(map[string]string{
		"command_id": c.m.ID, "kind": c.m.Kind, "result": out.Result, "code": out.Code,
	})
	if err != nil {
		return err
	}
	id := tool.NewID()
	c.tell(ctx, pipeline.OtherEvent{TenantID: c.m.Tenant, ID: id, Name: pipeline.EventSettled, At: c.now, Data: data})
	if _, err := c.Exec(ctx, commandInsertSQL, c.m.Tenant, c.m.ID, c.m.Kind, c.m.Actor, out.Result, optText(out.Code), uuid(id), c.now); err != nil {
		return err
	}
	return c.writeOutbox(ctx)
}

// tell owes an event of no call; it is written with the outbox.
func (c *commandTx) tell(_ context.Context, e pipeline.OtherEvent) {
	c.owed.add(e.TenantID, pipeline.Notice{Kind: pipeline.NoticeOther, Ref: e.ID, Other: &e})
}

func (c *commandTx) writeOutbox(ctx context.Context) error {
	b := &pgx.Batch{}
	var w otherColumns
	for _, a := range c.owed.byTenant {
		for _, n := range a.Notices {
			if n.Other != nil {
				w.add(*n.Other)
			}
		}
	}
	w.queue(b)
	c.owed.queue(b)
	return c.SendBatch(ctx, b).Close()
}

// end runs endings inside the command's transaction.
func (c *commandTx) end(ctx context.Context, ops []*pipeline.Ending) error {
	if len(ops) == 0 {
		return nil
	}
	w := newEndWriter(ops)
	b := &pgx.Batch{}
	w.queue(b)
	res := c.SendBatch(ctx, b)
	_, err := w.scan(res)
	if err := errors.Join(err, res.Close()); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	c.late = append(c.late, w)
	return nil
}

var (
	//go:embed sql/approval_waiting.sql
	approvalWaitingSQL string
	//go:embed sql/approve.sql
	approveSQL string
)

// WaitingCall gives the invocation that an approval is about, for steps 2, 3
// and 6 to be asked again. Errors: [ErrNotFound].
func (s *Store) WaitingCall(ctx context.Context, tenant string, approval tool.ID) (pipeline.Invocation, error) {
	var out pipeline.Invocation
	err := s.inTenant(ctx, tenant, func(tx pgx.Tx) error {
		rows, err := queryInvocations(ctx, tx, `SELECT `+invocationColumns+` FROM approvals a
			JOIN tool_invocations t ON t.tenant_id = a.tenant_id AND t.id = a.invocation_id
			WHERE a.tenant_id = $1 AND a.id = $2`, tenant, uuid(approval))
		if err == nil && len(rows) == 0 {
			return pgx.ErrNoRows
		}
		if err == nil {
			out = rows[0]
		}
		return err
	})
	return out, translate("approval", err)
}

// Decide applies an answer to an approval: the decision, its use and step 8 are
// one transaction. resolve is called with facts read under the locks of run,
// call and approval, and is pure.
func (s *Store) Decide(
	ctx context.Context, m pipeline.CommandMeta, approval tool.ID, row pipeline.Invocation, again pipeline.Reentry,
	resolve func(pipeline.Waiting) pipeline.Resolution, settle func(*pipeline.Invocation, pipeline.End) pipeline.Settlement,
) (pipeline.CommandResult, error) {
	return s.command(ctx, m, func(ctx context.Context, tx *commandTx) (string, error) {
		if row.ID.IsZero() {
			return "unknown_approval", nil
		}
		w, err := tx.waiting(ctx, approval, &row)
		if errors.Is(err, pgx.ErrNoRows) {
			return "unknown_approval", nil
		}
		if err != nil {
			return "", err
		}
		r := resolve(w)
		switch {
		case r.Authorize:
			return tx.approve(ctx, approval, row, again, r)
		case r.End != nil:
			err = tx.end(ctx, []*pipeline.Ending{{
				Row: &row, Settlement: settle(&row, *r.End), Expect: tool.WaitingForApproval, Attempt: row.Attempt, Decision: &r.Decision,
			}})
		}
		return r.Refused, err
	})
}

func (c *commandTx) waiting(ctx context.Context, approval tool.ID, row *pipeline.Invocation) (pipeline.Waiting, error) {
	var w pipeline.Waiting
	var inv [16]byte
	b := &pgx.Batch{}
	b.Queue(endLockRunsSQL, []string{c.m.Tenant}, [][16]byte{row.RunID})
	b.Queue(endLockCallsSQL, []string{c.m.Tenant}, [][16]byte{row.ID})
	b.Queue("SELECT id FROM approvals WHERE tenant_id = $1 AND id = $2 FOR UPDATE", c.m.Tenant, uuid(approval))
	if err := c.SendBatch(ctx, b).Close(); err != nil {
		return w, err
	}
	a := &w.Approval
	err := c.QueryRow(ctx, approvalWaitingSQL, c.m.Tenant, uuid(approval)).Scan(&w.Now, &w.RunStatus, &w.Status, &w.DeadlineAt, &inv,
		&a.ToolName, &a.ToolVersion, &a.ArgumentsHash, &a.PolicyVersion, &a.MatrixRow, &a.ExpiresAt, &a.Decision, &w.Revoked)
	a.TenantID, a.ID, a.InvocationID = c.m.Tenant, approval, inv
	return w, err
}

func (c *commandTx) approve(ctx context.Context, approval tool.ID, row pipeline.Invocation, again pipeline.Reentry, r pipeline.Resolution) (string, error) {
	var id [16]byte
	var at time.Time
	err := c.QueryRow(ctx, approveSQL, c.m.Tenant, uuid(approval), optText(r.Decision.By), optText(r.Decision.Comment),
		again.PolicyVersion, again.MatrixRow).Scan(&id, &row.EventSeq, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return "expired", nil // between the lock and the write the clock went past it
	}
	if err != nil {
		return "", err
	}
	row.Status = tool.Authorized
	event := func(seq int, name string) pipeline.Notice {
		return eventNotice(&row, seq, pipeline.EventRecord{Name: name, At: at, Attempt: 1})
	}
	c.owed.add(c.m.Tenant, event(row.EventSeq-1, pipeline.EventDecided), event(row.EventSeq, pipeline.EventAuthorized),
		pipeline.Notice{Kind: pipeline.NoticeHint, Ref: row.ID, Call: &row})
	return "", nil
}
