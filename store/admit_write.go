package store

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

type timestamp = time.Time

// column gathers one parameter of a set-based statement.
type column[T any] []T

func (c *column[T]) add(v T) { *c = append(*c, v) }

// queueInserts queues all new invocations as one statement.
func queueInserts(b *pgx.Batch, rulings []pipeline.Ruling, facts []pipeline.Facts) int {
	var tenant, callID, name, version, source, target, effect, class, hash, key, trust, origin, status column[string]
	var server, policy, matrix, authority, outcome, reason, errorJSON, runError, trace, result column[*string]
	var id, session, run column[[16]byte]
	var authorityID, group column[*[16]byte]
	var step, n column[int32]
	var position column[*int32]
	var parallel, synthesis column[bool]
	var arguments, item column[[]byte]
	var outputBytes column[*int64]
	var deadline, now column[time.Time]
	for k := range rulings {
		for i := range rulings[k].Insert {
			row := &rulings[k].Insert[i]
			tenant.add(row.TenantID)
			id.add(row.ID)
			session.add(row.SessionID)
			run.add(row.RunID)
			step.add(int32(row.Step)) //nolint:gosec // bounded by the decoder
			callID.add(row.CallID)
			name.add(row.ToolName)
			version.add(row.ToolVersion)
			source.add(string(row.Source))
			server.add(optText(row.ServerID))
			target.add(string(row.Target))
			effect.add(string(row.SideEffect))
			class.add(string(row.Class))
			arguments.add(row.Arguments)
			hash.add(row.ArgumentsHash)
			key.add(row.Key)
			trust.add(trustJSON(row.ArgumentTrust))
			origin.add(string(row.OriginTrust))
			policy.add(optText(row.PolicyVersion))
			matrix.add(optText(row.MatrixRow))
			authority.add(optText(row.Authority))
			authorityID.add(optUUID(row.AuthorityID))
			n.add(int32(row.N)) //nolint:gosec // bounded by the decoder
			group.add(optUUID(row.Group))
			position.add(optPosition(row))
			parallel.add(row.Parallel)
			status.add(string(row.Status))
			deadline.add(row.DeadlineAt)
			outcome.add(optText(row.Outcome))
			reason.add(optText(row.Reason))
			item.add(row.Item)
			outputBytes.add(optBytes(row))
			errorJSON.add(optJSON(row.Error))
			runError.add(optText(row.RunError))
			synthesis.add(row.SynthesisOnly)
			trace.add(optText(row.TraceParent))
			result.add(optJSON(row.Result))
			now.add(facts[k].Now)
		}
	}
	if len(id) == 0 {
		return 0
	}
	b.Queue(admitInsertSQL, tenant, id, session, run, step, callID, name, version, source, server,
		target, effect, class, arguments, hash, key, trust, origin, policy, matrix,
		authority, authorityID, n, group, position, parallel, status, deadline, outcome, reason,
		item, outputBytes, errorJSON, runError, synthesis, trace, result, now)
	return len(id)
}

func optPosition(row *pipeline.Invocation) *int32 {
	if row.Group.IsZero() {
		return nil
	}
	p := int32(row.Position) //nolint:gosec // at most 128
	return &p
}

func optBytes(row *pipeline.Invocation) *int64 {
	if !row.Terminal() {
		return nil
	}
	n := row.OutputBytes
	return &n
}

func queueRuns(b *pgx.Batch, ops []*pipeline.Admission, rulings []pipeline.Ruling) {
	var tenant, status column[string]
	var id column[[16]byte]
	var runError column[*string]
	var used column[int32]
	var hot column[*int32]
	for i := range rulings {
		if !rulings[i].RunChanged {
			continue
		}
		run := &rulings[i].Run
		tenant.add(ops[i].Tenant)
		id.add(ops[i].RunID)
		status.add(string(run.Status))
		runError.add(optText(run.Error))
		used.add(int32(run.CallsUsed)) //nolint:gosec // bounded by the steps of a run
		hot.add(optStep(run.HotStep))
	}
	if len(id) > 0 {
		b.Queue(admitRunUpdateSQL, tenant, id, status, runError, used, hot)
	}
}

func optStep(step int) *int32 {
	if step < 0 {
		return nil
	}
	s := int32(step) //nolint:gosec // bounded by the decoder
	return &s
}

func queueCounters(b *pgx.Batch, ops []*pipeline.Admission, rulings []pipeline.Ruling) {
	var w counterColumns
	for i := range rulings {
		for _, c := range rulings[i].Counters {
			w.add(ops[i].Tenant, ops[i].RunID, c)
		}
	}
	w.queue(b)
}

type counterColumns struct {
	tenant, hash, name, outcome, reason column[string]
	run                                 column[[16]byte]
	count, step                         column[int32]
	evidence                            column[*string]
}

func (w *counterColumns) add(tenant string, run tool.ID, c pipeline.Counter) {
	w.tenant.add(tenant)
	w.run.add(run)
	w.hash.add(c.Hash)
	w.name.add(c.Tool)
	w.outcome.add(string(c.Outcome))
	w.reason.add(c.Reason)
	w.count.add(int32(c.Count)) //nolint:gosec // bounded by the thresholds and the step's calls
	w.step.add(int32(c.Step))   //nolint:gosec // bounded by the decoder
	w.evidence.add(optText(c.Evidence))
}

func (w *counterColumns) queue(b *pgx.Batch) {
	if len(w.run) > 0 {
		b.Queue(countersUpsertSQL, w.tenant, w.run, w.hash, w.name, w.outcome, w.reason, w.count, w.step, w.evidence)
	}
}

func queueApprovals(b *pgx.Batch, rulings []pipeline.Ruling) {
	var tenant, name, version, hash, policy, matrix column[string]
	var id, invocation column[[16]byte]
	var requested, expires column[time.Time]
	for i := range rulings {
		for _, a := range rulings[i].Approvals {
			tenant.add(a.TenantID)
			id.add(a.ID)
			invocation.add(a.InvocationID)
			name.add(a.ToolName)
			version.add(a.ToolVersion)
			hash.add(a.ArgumentsHash)
			policy.add(a.PolicyVersion)
			matrix.add(a.MatrixRow)
			requested.add(a.RequestedAt)
			expires.add(a.ExpiresAt)
		}
	}
	if len(id) > 0 {
		b.Queue(approvalsInsertSQL, tenant, id, invocation, name, version, hash, policy, matrix, requested, expires)
	}
}

func queueRaises(b *pgx.Batch, ops []*pipeline.Admission, rulings []pipeline.Ruling) {
	var tenant column[string]
	var id column[[16]byte]
	var n column[int32]
	for i := range rulings {
		for _, inv := range rulings[i].Raise {
			tenant.add(ops[i].Tenant)
			id.add(inv)
			n.add(int32(ops[i].N)) //nolint:gosec // bounded by the decoder
		}
	}
	if len(id) > 0 {
		b.Queue(raiseSQL, tenant, id, n)
	}
}

// queueFailedRuns says that a breaker ended a run.
func queueFailedRuns(b *pgx.Batch, ops []*pipeline.Admission, rulings []pipeline.Ruling, facts []pipeline.Facts, owed *ledger) {
	var w otherColumns
	for i := range rulings {
		if rulings[i].Run.Status != pipeline.RunFailed || facts[i].Run.Status != pipeline.RunOpen {
			continue
		}
		data, err := json.Marshal(map[string]string{"run_id": ops[i].RunID.String(), "error": rulings[i].Run.Error})
		if err != nil {
			continue
		}
		w.owe(owed, pipeline.OtherEvent{
			TenantID: ops[i].Tenant, ID: tool.NewID(), Name: pipeline.EventRunFailed,
			RunID: ops[i].RunID, At: facts[i].Now, Data: data,
		})
	}
	w.queue(b)
}

type otherColumns struct {
	tenant, name, data column[string]
	id                 column[[16]byte]
	run                column[*[16]byte]
	at                 column[time.Time]
}

func (w *otherColumns) owe(owed *ledger, e pipeline.OtherEvent) {
	w.add(e)
	owed.add(e.TenantID, pipeline.Notice{Kind: pipeline.NoticeOther, Ref: e.ID, Other: &e})
}

func (w *otherColumns) add(e pipeline.OtherEvent) {
	w.tenant.add(e.TenantID)
	w.id.add(e.ID)
	w.name.add(e.Name)
	w.run.add(optUUID(e.RunID))
	w.data.add(string(e.Data))
	w.at.add(e.At)
}

func (w *otherColumns) queue(b *pgx.Batch) {
	if len(w.id) > 0 {
		b.Queue(otherEventsInsertSQL, w.tenant, w.id, w.name, w.run, w.data, w.at)
	}
}
