package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolbus/toolbus/argschema"
	"github.com/toolbus/toolbus/canonical"
	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/policy"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// AdmitStore commits admissions.
type AdmitStore interface {
	Admit(ctx context.Context, a *Admission) (Ruling, error)
}

// AdmitOptions configure an [Admitter].
type AdmitOptions struct {
	Store AdmitStore
	Table *outcome.Table
	// Profiles are the policy profiles by name.
	Profiles map[string]*policy.Profile
	// Disabled are patterns of tools that an operator switched off.
	Disabled       []string
	ApprovalExpiry time.Duration
	Probe          Probe
}

// Admitter carries proposed calls through steps 1 to 8. Safe for concurrent
// use.
type Admitter struct {
	o        AdmitOptions
	mu       sync.Mutex
	standing map[StandingRow]*policy.CompiledStanding
}

// NewAdmitter makes an Admitter; it has no resources to release.
func NewAdmitter(o AdmitOptions) *Admitter {
	return &Admitter{o: o, standing: map[StandingRow]*policy.CompiledStanding{}}
}

// Admit takes one proposal through steps 1 to 8: every call is judged, then all
// are committed at once or none is. The error is the store's; whatever is wrong
// with a call is its outcome, whatever is wrong with the proposal a refusal in
// the ruling.
func (a *Admitter) Admit(ctx context.Context, s *Session, p *subjects.Proposal, trace string) (Ruling, error) {
	op := &Admission{
		Tenant: s.TenantID, SessionID: s.ID, RunID: p.RunID, Step: p.StepNumber, N: p.N,
		Principal: s.Principal, MaxToolCalls: s.MaxToolCalls, ApprovalExpiry: a.o.ApprovalExpiry,
		Settle: a.settle, Calls: make([]Judged, len(p.Calls)),
	}
	if len(p.Calls) > 1 {
		op.Group = tool.NewID()
	}
	for i := range p.Calls {
		a.judge(ctx, s, p, &p.Calls[i], &op.Calls[i])
		op.Calls[i].Row.TraceParent = trace
	}
	for i := range op.Calls {
		a.o.Probe.At(ctx, StepIntent, Before, op.Calls[i].Row.ID, op.Calls[i].Row.Class)
	}
	ruling, err := a.o.Store.Admit(ctx, op)
	for i := range op.Calls {
		a.o.Probe.At(ctx, StepIntent, After, op.Calls[i].Row.ID, op.Calls[i].Row.Class)
	}
	return ruling, err
}

// judge is steps 1 to 7 of one call, as far as they need no lock.
func (a *Admitter) judge(ctx context.Context, s *Session, p *subjects.Proposal, c *subjects.Call, j *Judged) {
	j.Row = Invocation{
		TenantID: s.TenantID, ID: tool.NewID(), SessionID: s.ID, RunID: p.RunID, Step: p.StepNumber, CallID: c.CallID,
		OriginTrust: p.OriginTrust, ArgumentTrust: c.ArgumentTrust, N: p.N, DeadlineAt: p.DeadlineAt, Attempt: 1,
	}
	defer a.recoverDefect(j, c)
	step := func(n Step, do func() *End) bool {
		a.o.Probe.At(ctx, n, Before, j.Row.ID, j.Row.Class)
		j.End = do()
		a.o.Probe.At(ctx, n, After, j.Row.ID, j.Row.Class)
		return j.End == nil
	}
	var spec tool.Spec
	var decision policy.Decision
	var input policy.Input
	ok := step(StepResolve, func() (end *End) { spec, end = a.resolve(s, c, j); return end }) &&
		step(StepAgent, func() *End { return a.enabled(s, spec) }) &&
		step(StepScopes, func() *End { return scoped(s, spec) }) &&
		step(StepValidate, func() *End { return a.validate(s, spec, c, j) }) &&
		step(StepNormalize, func() *End { hashed(j); return nil }) &&
		step(StepPolicy, func() (end *End) { input, decision, end = a.decide(ctx, s, spec, j); return end })
	if !ok {
		if j.Row.Key == "" {
			unhashed(j, c)
		}
		return
	}
	step(StepApproval, func() *End { a.approval(ctx, input, decision, j); return nil })
}

// recoverDefect turns a panic in steps 1 to 7 into the end of that call: a
// poisonous proposal must not take its neighbours' gatekeeper down.
func (a *Admitter) recoverDefect(j *Judged, c *subjects.Call) {
	if r := recover(); r != nil {
		if j.Row.Key == "" {
			unhashed(j, c)
		}
		j.End = &End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeInternal, Detail: fmt.Sprintf("panic in steps 1 to 7: %v", r)}
	}
}

func (a *Admitter) resolve(s *Session, c *subjects.Call, j *Judged) (tool.Spec, *End) {
	spec, ok := s.Catalog.Pin.Resolve(c.Name)
	if !ok {
		j.Unresolved = true
		j.Row.ToolName, j.Row.ToolVersion = c.Name, "-"
		j.Row.Source, j.Row.Target = tool.Builtin, tool.InProcess
		j.Row.SideEffect, j.Row.Class = tool.EffectNone, tool.NonIdempotent
		return spec, &End{Outcome: tool.OutcomeDenied, Reason: outcome.CodeMatrixUnknownTool}
	}
	j.Row.ToolName, j.Row.ToolVersion = spec.Name, spec.Version
	j.Row.Source, j.Row.ServerID, j.Row.Target = spec.Source, spec.ServerID, spec.TargetKind
	j.Row.SideEffect, j.Row.Class = spec.SideEffect, spec.Idempotency
	j.RequiredScopes, j.AllowParallel = spec.RequiredScopes, spec.AllowParallel
	j.Timeout = time.Duration(spec.TimeoutSeconds) * time.Second
	return spec, nil
}

func (a *Admitter) enabled(s *Session, spec tool.Spec) *End {
	if covered(a.o.Disabled, spec.Name) || !covered(s.AgentTools, spec.Name) {
		return &End{Outcome: tool.OutcomeDenied, Reason: outcome.CodeAgentDisabled}
	}
	return nil
}

func covered(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return registry.MatchPattern(p, name) })
}

func scoped(s *Session, spec tool.Spec) *End {
	for _, scope := range spec.RequiredScopes {
		if !slices.Contains(s.Scopes, scope) {
			return &End{Outcome: tool.OutcomeDenied, Reason: outcome.CodeScopeMissing}
		}
	}
	return nil
}

func (a *Admitter) validate(s *Session, spec tool.Spec, c *subjects.Call, j *Judged) *End {
	schema, err := s.Catalog.Input(spec)
	if err != nil {
		return &End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeInternal, Detail: err.Error()}
	}
	form, err := schema.Arguments(c.Arguments)
	if err == nil {
		j.Row.Arguments = form
		return nil
	}
	var bad *argschema.ArgumentError
	if !errors.As(err, &bad) {
		return &End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeInternal, Detail: err.Error()}
	}
	item, err := a.o.Table.InvalidArguments(spec, []outcome.Violation{{Path: bad.Path, Rule: bad.Rule}}, nil, nil)
	if err != nil {
		return &End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeInternal, Detail: err.Error()}
	}
	return &End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeArgumentsInvalid, Detail: bad.Error(), Item: &item}
}

func hashed(j *Judged) {
	j.Row.ArgumentsHash = canonical.Hash(j.Row.Arguments)
	j.Row.Key = key(&j.Row)
}

// unhashed keys a call that never got a canonical form: version "-" and the
// sha256 of the bytes as they came, so that a redelivery finds its row.
func unhashed(j *Judged, c *subjects.Call) {
	sum := sha256.Sum256(c.Arguments)
	j.Row.Arguments, j.Row.ArgumentsHash = c.Arguments, hex.EncodeToString(sum[:])
	version := j.Row.ToolVersion
	j.Row.ToolVersion = "-"
	j.Row.Key = key(&j.Row)
	if version != "" {
		j.Row.ToolVersion = version
	}
	if j.Row.ToolName == "" {
		j.Row.ToolName, j.Row.Source, j.Row.Target = c.Name, tool.Builtin, tool.InProcess
		j.Row.SideEffect, j.Row.Class = tool.EffectNone, tool.NonIdempotent
	}
}

func key(row *Invocation) string {
	return canonical.Key(canonical.KeyInput{
		RunID: row.RunID, Step: row.Step, CallID: row.CallID,
		ToolName: row.ToolName, ToolVersion: row.ToolVersion, ArgumentsHash: row.ArgumentsHash,
	})
}

func (a *Admitter) decide(ctx context.Context, s *Session, spec tool.Spec, j *Judged) (policy.Input, policy.Decision, *End) {
	in := policy.Input{
		Spec: spec, Arguments: j.Row.Arguments, ArgumentTrust: j.Row.ArgumentTrust, OriginTrust: j.Row.OriginTrust,
		Principal: s.Principal, AgentID: s.AgentID, SessionID: s.ID.String(), TenantID: s.TenantID,
	}
	d := a.o.Profiles[s.Profile].Evaluate(ctx, in)
	j.Row.PolicyVersion, j.Row.MatrixRow = d.PolicyVersion, d.Row
	if d.Effect == policy.Deny && d.Row != policy.RowUnattended {
		return in, d, &End{Outcome: tool.OutcomeDenied, Reason: d.Code}
	}
	return in, d, nil
}

// approval prepares step 7: whether a person, or a standing authorization, has
// to say yes. Which of them does is decided under the run's lock.
func (a *Admitter) approval(ctx context.Context, in policy.Input, d policy.Decision, j *Judged) {
	if d.Effect == policy.Allow {
		return
	}
	j.NeedsApproval = true
	if d.Row == policy.RowUnattended {
		j.Unattended = d.Code
	}
	j.MatchStanding = func(rows []StandingRow) (tool.ID, bool) {
		for _, row := range rows {
			if c := a.compiled(in.Principal.ID, row); c != nil && c.Matches(ctx, in) {
				return row.ID, true
			}
		}
		return tool.ID{}, false
	}
}

func (a *Admitter) compiled(principal string, row StandingRow) *policy.CompiledStanding {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.standing[row]; ok {
		return c
	}
	c, err := policy.CompileStanding(policy.Standing{ID: row.ID, Principal: principal, Tool: row.Tool, Condition: row.Condition})
	if err != nil {
		c = nil // falls back to interactive approval
	}
	if len(a.standing) >= maximumStanding {
		clear(a.standing)
	}
	a.standing[row] = c
	return c
}

const maximumStanding = 1024

func (a *Admitter) settle(row *Invocation, end End) Settlement {
	return Settle(a.o.Table, row.ToolName, end)
}

// Settle renders the end of a call that no tool had a part in.
func Settle(t *outcome.Table, action string, end End) Settlement {
	item := end.Item
	if item == nil {
		concluded := outcome.Conclude(t.Object(end.Outcome, action, end.Reason))
		item = &concluded
	}
	st := Settlement{Outcome: end.Outcome, Reason: end.Reason, Rendered: item, Error: operatorError(end.Reason, end.Detail, "")}
	raw, err := json.Marshal(item)
	if err != nil { // an item always marshals
		raw = []byte("{}")
	}
	st.Item = raw
	return st
}

// operatorError is the error column: for operators, never for a model.
func operatorError(code, detail, external string) json.RawMessage {
	type record struct {
		Code     string `json:"reason_code"`
		Detail   string `json:"detail,omitempty"`
		External string `json:"external_text,omitempty"`
	}
	raw, err := json.Marshal(record{code, storable(detail), storable(external)})
	if err != nil {
		return nil
	}
	return raw
}
