package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/tool"
)

// environment builds what the tool may reach.
func (x *Executor) environment(ctx context.Context, s *Session, c *Claim, timeout time.Duration, r *execution) (*tool.Execution, func(), error) {
	exec := &tool.Execution{
		InvocationID: c.ID, CallID: c.CallID, RunID: c.RunID, SessionID: c.SessionID, TenantID: c.TenantID,
		Principal: s.Principal, StepNumber: c.Step, AttemptNumber: c.Attempt, IdempotencyKey: c.Key,
		DeadlineAt: time.Now().Add(timeout), Timeout: timeout, MaximumOutputBytes: r.spec.MaximumOutputBytes,
		Target: r.spec.TargetKind, Credentials: r.secrets,
		Artifacts: &artifactWriter{x: x, c: c, trust: r.spec.OutputTrust, maximum: 4 * int64(r.spec.MaximumOutputBytes)},
	}
	exec.MarkEffectSent = func(ctx context.Context) error {
		if !r.fenced && !x.mark(ctx, c, r) {
			return ErrLost
		}
		if !c.held() { // time passed since the watermark
			r.lost = true
			return ErrLost
		}
		return nil
	}
	if !needsWorkspace(r.spec) || x.o.Workspaces == nil {
		return exec, func() {}, nil
	}
	w, release, err := x.o.Workspaces.Open(ctx, c.TenantID, c.RunID)
	if err != nil {
		return nil, nil, fmt.Errorf("workspace: %w", err)
	}
	exec.Workspace = w
	return exec, release, nil
}

func needsWorkspace(spec tool.Spec) bool {
	return spec.SideEffect == tool.WorkspaceRead || spec.SideEffect == tool.WorkspaceWrite || spec.TargetKind == tool.SandboxTarget
}

// artifactWriter gives a tool artifacts of its own run and nothing to read.
type artifactWriter struct {
	x       *Executor
	c       *Claim
	trust   tool.Trust
	maximum int64
}

func (w *artifactWriter) Create(ctx context.Context, mediaType string, r io.Reader) (tool.ArtifactRef, error) {
	return w.x.o.Store.CreateArtifact(ctx, &w.c.Invocation, mediaType, w.trust, w.maximum, r)
}

// secretLog remembers what a tool resolved, so that it can be scrubbed from
// what the tool returns. Safe for concurrent use.
type secretLog struct {
	resolver tool.CredentialResolver
	mu       sync.Mutex
	values   []string
}

func (l *secretLog) Resolve(ctx context.Context, ref string) (tool.Secret, error) {
	if l.resolver == nil {
		return tool.Secret{}, tool.ErrNoCredential
	}
	v, err := l.resolver.Resolve(ctx, ref)
	if err != nil {
		return v, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if value := v.Reveal(); value != "" && !slices.Contains(l.values, value) {
		l.values = append(l.values, value)
	}
	return v, nil
}

func (l *secretLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.values)
}

// finish is steps 11 to 14: check the result, excerpt it, persist it; the
// outcome is rendered before it is written, since the row keeps it.
func (x *Executor) finish(ctx context.Context, c *Claim, r *execution) error {
	if r.end != nil {
		if len(r.result.Content) > 0 || r.result.Failure != nil { // what was read before the end is worth keeping
			x.conclude(ctx, c, r, r.end.Outcome, r.end.Reason)
		} else {
			r.settlement = Settle(x.o.Table, c.ToolName, scrubbed(*r.end, r.secrets))
		}
	} else {
		status, code := x.check(ctx, c, r)
		x.conclude(ctx, c, r, status, code)
	}
	return x.persist(ctx, c, r)
}

func scrubbed(e End, s *secretLog) End {
	e.Detail = outcome.Scrub(e.Detail, s.all())
	return e
}

// check is step 11: the output schema, and what a remote failure means for a
// call that may have had its effect.
func (x *Executor) check(ctx context.Context, c *Claim, r *execution) (tool.OutcomeStatus, string) {
	x.o.Probe.At(ctx, StepCheckResult, Before, c.ID, c.Class)
	defer x.o.Probe.At(ctx, StepCheckResult, After, c.ID, c.Class)
	r.metrics = r.result.Metrics
	if r.result.OK {
		if err := r.catalog.CheckOutput(r.spec, r.result.Structured); err != nil {
			return tool.OutcomeFailed, outcome.CodeOutputInvalid
		}
		return "", ""
	}
	if r.spec.Source == tool.MCP && r.marked && c.Class == tool.NonIdempotent && !r.result.EffectNotApplied {
		return tool.OutcomeUncertain, outcome.CodeOutcomeUnknown
	}
	return "", ""
}

// conclude is step 12 and the rendering of step 14: measure, capture, render.
func (x *Executor) conclude(ctx context.Context, c *Claim, r *execution, status tool.OutcomeStatus, code string) {
	x.o.Probe.At(ctx, StepExcerpt, Before, c.ID, c.Class)
	defer x.o.Probe.At(ctx, StepExcerpt, After, c.ID, c.Class)
	in := outcome.Input{
		Spec: r.spec, Result: r.result, Status: status, Code: code, InlineMaximum: x.o.InlineMaximum,
		Secrets: r.secrets.all(), CanCapture: true,
	}
	plan, err := x.o.Table.Measure(in)
	if err != nil {
		in.Status, in.Code, in.Result.Structured = tool.OutcomeFailed, outcome.CodeOutputInvalid, nil
		plan, err = x.o.Table.Measure(in)
	}
	var admitted outcome.Admitted
	if err == nil {
		admitted, err = x.render(ctx, c, &plan)
	}
	if err != nil {
		end := c.stopped(outcome.CodeInternal, r.marked)
		end.Detail = err.Error()
		r.settlement = Settle(x.o.Table, c.ToolName, *end)
		return
	}
	r.settlement = settlementOf(&plan, &admitted, r)
}

func (x *Executor) render(ctx context.Context, c *Claim, plan *outcome.Plan) (outcome.Admitted, error) {
	if plan.Capture == nil {
		return plan.Render(nil)
	}
	ref, err := x.o.Store.CreateArtifact(ctx, &c.Invocation, plan.Capture.MediaType, plan.Trust,
		int64(len(plan.Capture.Bytes)), bytes.NewReader(plan.Capture.Bytes))
	if err != nil {
		return outcome.Admitted{}, fmt.Errorf("capture: %w", err)
	}
	return plan.Render(&ref)
}

func settlementOf(plan *outcome.Plan, a *outcome.Admitted, r *execution) Settlement {
	st := Settlement{
		Outcome: tool.OutcomeSucceeded, Rendered: &a.Item, OutputBytes: a.OutputBytes, Truncated: a.Truncated,
		Artifact: a.Artifact, Evidence: storableKey(r.result.Evidence),
	}
	if plan.Outcome != nil {
		st.Outcome, st.Reason, st.Evidence = plan.Outcome.Status, plan.Outcome.ReasonCode, ""
		detail, external := "", ""
		if f := r.result.Failure; f != nil {
			secrets := outcome.NewScrubber(r.secrets.all())
			detail, external = secrets.Scrub(f.Detail), secrets.Scrub(f.ExternalText)
		}
		if r.end != nil && r.end.Detail != "" {
			detail = scrubbed(*r.end, r.secrets).Detail
		}
		st.Error = operatorError(st.Reason, detail, external)
	}
	if raw, err := json.Marshal(a.Item); err == nil {
		st.Item = raw
	}
	if canonicalDiffers(a) {
		if raw, err := json.Marshal(canonicalResult{Content: a.Canonical, Structured: a.Item.Structured}); err == nil {
			st.Result = raw
		}
	}
	return st
}

// canonicalResult is the result column: what programmatic readers get.
type canonicalResult struct {
	Content    []tool.Part     `json:"content"`
	Structured json.RawMessage `json:"structured,omitempty"`
}

// canonicalDiffers reports whether the item does not already hold the canonical
// content: only then is it stored a second time.
func canonicalDiffers(a *outcome.Admitted) bool {
	return !slices.EqualFunc(a.Canonical, a.Item.Content, func(x, y tool.Part) bool {
		if x.Type != y.Type || x.Text != y.Text || (x.ArtifactRef == nil) != (y.ArtifactRef == nil) {
			return false
		}
		return x.ArtifactRef == nil || *x.ArtifactRef == *y.ArtifactRef
	})
}

// persist is step 13. The write is fenced by attempt and claim, not by the
// lease: a result in hand counts until somebody else has acted.
func (x *Executor) persist(ctx context.Context, c *Claim, r *execution) error {
	e := &Ending{
		Row: &c.Invocation, Settlement: r.settlement, Expect: tool.Running, Attempt: c.Attempt, Claim: c.ClaimID, HotRun: c.HotRun,
	}
	if c.Over != "" {
		e.Expect, e.Claim = tool.Authorized, tool.ID{}
	}
	x.o.Probe.At(ctx, StepPersist, Before, c.ID, c.Class)
	v, err := x.o.Store.End(ctx, e)
	if errors.Is(err, ErrUnstorable) { // whatever the tool returned, the call ends
		end := c.stopped(outcome.CodeOutputInvalid, r.marked)
		end.Detail = "the result cannot be stored"
		r.settlement = Settle(x.o.Table, c.ToolName, *end)
		e.Settlement = r.settlement
		v, err = x.o.Store.End(ctx, e)
	}
	x.o.Probe.At(ctx, StepPersist, After, c.ID, c.Class)
	if err != nil {
		return fmt.Errorf("persist result: %w", err)
	}
	if !v.Written {
		return ErrLost
	}
	x.o.Probe.At(ctx, StepRender, Before, c.ID, c.Class)
	r.settlement.RunError, r.settlement.SynthesisOnly = v.RunError, v.SynthesisOnly
	x.o.Probe.At(ctx, StepRender, After, c.ID, c.Class)
	return nil
}
