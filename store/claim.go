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
	//go:embed sql/claim_lock.sql
	claimLockSQL string
	//go:embed sql/claim.sql
	claimSQL string
	//go:embed sql/mark.sql
	markSQL string
	//go:embed sql/heartbeat.sql
	heartbeatSQL string
)

// Claim takes what the hints allow, at most one call a hint: step 9. The claims
// it returns belong to the caller until their lease ends; those with Over set
// belong to nobody and are to be ended. It waits for the verdict whatever
// happens to ctx after the handover. Errors: [ErrStopped].
func (s *Store) Claim(ctx context.Context, r *pipeline.ClaimRequest) ([]pipeline.Claim, error) {
	if len(r.Hints) == 0 {
		return nil, nil
	}
	return s.claim.do(ctx, r)
}

type claimParams struct {
	tenants                                map[string]bool
	groupTenant, singleTenant, outboxNames column[string]
	group, single, outbox                  column[[16]byte]
	count                                  column[int32]
}

func claimColumns(ops []*pipeline.ClaimRequest) claimParams {
	p := claimParams{tenants: map[string]bool{}}
	at := map[pipeline.Hint]int{}
	singles := map[pipeline.Hint]bool{}
	for _, op := range ops {
		for _, h := range op.Hints {
			p.tenants[h.Tenant] = true
			if h.Batch.IsZero() {
				if !singles[h] {
					singles[h] = true
					p.singleTenant.add(h.Tenant)
					p.single.add(h.Call)
				}
				continue
			}
			key := pipeline.Hint{Tenant: h.Tenant, Batch: h.Batch}
			if i, ok := at[key]; ok {
				p.count[i]++
				continue
			}
			at[key] = len(p.group)
			p.groupTenant.add(h.Tenant)
			p.group.add(h.Batch)
			p.count.add(1)
		}
	}
	for t := range p.tenants {
		p.outboxNames.add(t)
		p.outbox.add(tool.NewID())
	}
	return p
}

// flushClaim serves one request: a process has one fetch at a time.
func (s *Store) flushClaim(ctx context.Context, c *pgx.Conn, ops []*pipeline.ClaimRequest) ([][]pipeline.Claim, error) {
	r, p := ops[0], claimColumns(ops)
	b := &pgx.Batch{}
	b.Queue(setTenants, tenantSet(p.tenants))
	b.Queue(claimLockSQL, p.groupTenant, p.group, p.singleTenant, p.single)
	b.Queue(claimSQL, p.groupTenant, p.group, p.count, p.singleTenant, p.single, uuid(r.ID), r.Owner, r.Lease.Seconds(),
		r.Window, r.MaximumAttempts, p.outboxNames, p.outbox)
	res := c.SendBatch(ctx, b)
	claims, err := scanClaims(res)
	for i := range claims {
		if claims[i].Over == "" {
			claims[i].ClaimID = r.ID
		}
	}
	if err := errors.Join(err, res.Close()); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	s.announceClaims(claims, p)
	return [][]pipeline.Claim{claims}, nil
}

func scanClaims(res pgx.BatchResults) ([]pipeline.Claim, error) {
	for range 2 {
		if _, err := res.Exec(); err != nil {
			return nil, err
		}
	}
	var claims []pipeline.Claim
	err := each(res, "claim", func(rows pgx.Rows) error {
		var c pipeline.Claim
		var id, session, run [16]byte
		var server, over, trace *string
		var group *[16]byte
		var position *int
		var sent, started *time.Time
		var mine bool
		err := rows.Scan(&c.TenantID, &id, &session, &run, &c.Step, &c.CallID, &c.ToolName, &c.ToolVersion, &c.Source, &server,
			&c.Target, &c.SideEffect, &c.Class, &c.Arguments, &c.ArgumentsHash, &c.Key,
			&c.N, &group, &position, &c.Parallel, &c.Status, &c.Attempt, &c.EventSeq, &c.DeadlineAt,
			&sent, &started, &trace, &c.Until, &over, &c.Now, &c.HotRun, &c.Answer, &mine)
		if err != nil {
			return err
		}
		c.ID, c.SessionID, c.RunID, c.Group = id, session, run, idOf(group)
		c.ServerID, c.Over, c.TraceParent = deref(server), deref(over), deref(trace)
		c.EffectSentAt, c.StartedAt = timeOf(sent), timeOf(started)
		if position != nil {
			c.Position = *position
		}
		claims = append(claims, c)
		return nil
	})
	return claims, err
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (s *Store) announceClaims(claims []pipeline.Claim, p claimParams) {
	byTenant := map[string]*pipeline.Announcement{}
	for i := range claims {
		c := &claims[i]
		if c.Over != "" {
			continue
		}
		a := byTenant[c.TenantID]
		if a == nil {
			a = &pipeline.Announcement{Tenant: c.TenantID}
			for k, t := range p.outboxNames {
				if t == c.TenantID {
					a.Outbox = p.outbox[k]
				}
			}
			byTenant[c.TenantID] = a
		}
		a.Notices = append(a.Notices, eventNotice(&c.Invocation, c.EventSeq, pipeline.EventRecord{
			Name: pipeline.EventStarted, At: c.Now, Attempt: c.Attempt, EffectSent: c.EffectSent(),
		}))
	}
	for _, a := range byTenant {
		s.announce(*a)
	}
}

// Mark asks for the watermark of one call. It waits for the verdict whatever
// happens to ctx after the handover: no effect starts before its verdict is
// known. Errors: [ErrStopped].
func (s *Store) Mark(ctx context.Context, m *pipeline.Mark) (pipeline.MarkVerdict, error) {
	return s.mark.do(ctx, m)
}

func (s *Store) flushMark(ctx context.Context, c *pgx.Conn, ops []*pipeline.Mark) ([]pipeline.MarkVerdict, error) {
	tenants := map[string]bool{}
	var tenant, scopes column[string]
	var id, claim column[[16]byte]
	var attempt column[int32]
	order := sortedByID(ops, func(m *pipeline.Mark) tool.ID { return m.ID })
	for _, i := range order {
		m := ops[i]
		tenants[m.Tenant] = true
		tenant.add(m.Tenant)
		id.add(m.ID)
		attempt.add(int32(m.Attempt)) //nolint:gosec // bounded by maximum_attempts
		claim.add(m.Claim)
		scopes.add(joinScopes(m.Scopes))
	}
	b := &pgx.Batch{}
	b.Queue(setTenants, tenantSet(tenants))
	b.Queue(markSQL, tenant, id, attempt, claim, scopes)
	res := c.SendBatch(ctx, b)
	out := make([]pipeline.MarkVerdict, len(ops))
	for i := range out {
		out[i].Code = pipeline.Fenced // a row of another tenant is no row
	}
	_, err := res.Exec()
	if err == nil {
		err = each(res, "mark", func(rows pgx.Rows) error {
			var ord int
			var v pipeline.MarkVerdict
			var at *time.Time
			if err := rows.Scan(&ord, &v.Code, &v.Earlier, &at); err != nil {
				return err
			}
			v.SentAt = timeOf(at)
			out[order[ord-1]] = v
			return nil
		})
	}
	if err := errors.Join(err, res.Close()); err != nil {
		return nil, fmt.Errorf("mark: %w", err)
	}
	return out, nil
}

// Heartbeat extends leases to lease from now, on a connection of its own: a
// healthy worker must not lose its calls behind a slow flush. The verdicts are
// in the order of beats. Safe for concurrent use.
func (s *Store) Heartbeat(ctx context.Context, beats []pipeline.Heartbeat, lease time.Duration) ([]pipeline.HeartbeatVerdict, error) {
	tenants := map[string]bool{}
	var tenant column[string]
	var id, claim column[[16]byte]
	var attempt column[int32]
	for _, h := range beats {
		tenants[h.Tenant] = true
		tenant.add(h.Tenant)
		id.add(h.ID)
		attempt.add(int32(h.Attempt)) //nolint:gosec // bounded by maximum_attempts
		claim.add(h.Claim)
	}
	out := make([]pipeline.HeartbeatVerdict, len(beats))
	err := s.beat.batch(ctx, func(b *pgx.Batch) {
		b.Queue(setTenants, tenantSet(tenants))
		b.Queue(heartbeatSQL, tenant, id, attempt, claim, lease.Seconds())
	}, func(res pgx.BatchResults) error {
		if _, err := res.Exec(); err != nil {
			return err
		}
		return each(res, "heartbeat", func(rows pgx.Rows) error {
			var ord int
			var over bool
			if err := rows.Scan(&ord, &over); err != nil {
				return err
			}
			out[ord-1] = pipeline.HeartbeatVerdict{Held: true, RunOver: over}
			return nil
		})
	})
	return out, translate("heartbeat", err)
}
