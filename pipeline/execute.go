package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/toolbus/toolbus/canonical"
	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/tool"
)

// ExecuteStore is what Execute writes through.
type ExecuteStore interface {
	Mark(ctx context.Context, m *Mark) (MarkVerdict, error)
	End(ctx context.Context, e *Ending) (EndVerdict, error)
	CreateArtifact(ctx context.Context, owner *Invocation, mediaType string, trust tool.Trust, maximum int64, r io.Reader) (tool.ArtifactRef, error)
}

// Workspaces opens the directory of a run.
type Workspaces interface {
	Open(ctx context.Context, tenant string, run tool.ID) (tool.Workspace, func(), error)
}

// Tools finds the implementation of a pinned declaration.
type Tools interface {
	// Tool returns a [*tool.Unavailable] error when the call has no route now.
	Tool(ctx context.Context, tenant string, spec tool.Spec) (tool.Tool, error)
}

// ExecuteOptions configure an [Executor].
type ExecuteOptions struct {
	Store       ExecuteStore
	Tools       Tools
	Workspaces  Workspaces
	Credentials tool.CredentialResolver
	Table       *outcome.Table
	// InlineMaximum is output.inline_maximum_bytes.
	InlineMaximum int
	// Disabled are patterns of tools that an operator switched off, asked again
	// before every effect.
	Disabled []string
	Logger   *slog.Logger
	Probe    Probe
	Observe  Observer
}

// Observer is told how calls went, for spans and metrics. Safe for concurrent
// use.
type Observer interface {
	// Start begins the span of one execution and returns its context and the
	// function that ends it.
	Start(ctx context.Context, c *Claim) (context.Context, func(Executed))
}

// Executed is what an execution came to.
type Executed struct {
	Settlement Settlement
	Metrics    map[string]int64
	Duration   time.Duration
	// Lost says that the call was taken from this worker.
	Lost bool
}

// Executor carries claimed calls through steps 10 to 14 (step 9 is the claim
// itself). Safe for concurrent use.
type Executor struct{ o ExecuteOptions }

// NewExecutor makes an Executor; it has no resources to release.
func NewExecutor(o ExecuteOptions) *Executor {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Executor{o: o}
}

// ErrLost says that the call belongs to somebody else by now: nothing was
// written, or only evidence.
var ErrLost = errors.New("the call was taken from this worker")

// ErrCut is the cause of a context that ends because the lease cannot be kept.
var ErrCut = errors.New("lease lost")

// ErrRunOver is the cause of a context that ends because the run was cancelled
// or has ended.
var ErrRunOver = errors.New("run is over")

// Execute takes one claimed call from step 10 to its outcome. The context ends
// with a cause when the lease is lost ([ErrCut]) or the run is over
// ([ErrRunOver]); what is already done is still recorded. Errors: [ErrLost], or
// why the end could not be written.
func (x *Executor) Execute(ctx context.Context, s *Session, c *Claim) error {
	ctx, ended := x.observe(ctx, c)
	began := time.Now()
	r := x.run(ctx, s, c)
	lost := r.lost
	var err error
	if lost {
		err = ErrLost
	} else {
		err = x.finish(context.WithoutCancel(ctx), c, &r)
		lost = errors.Is(err, ErrLost)
	}
	ended(Executed{Settlement: r.settlement, Metrics: r.metrics, Duration: time.Since(began), Lost: lost})
	return err
}

func (x *Executor) observe(ctx context.Context, c *Claim) (context.Context, func(Executed)) {
	if x.o.Observe == nil {
		return ctx, func(Executed) {}
	}
	return x.o.Observe.Start(ctx, c)
}

// execution is one call under way.
type execution struct {
	spec    tool.Spec
	catalog *Catalog
	// marked says that the watermark is set, by this attempt or an earlier one;
	// fenced, that this attempt asked for it and got it.
	marked, fenced bool
	// entered says that the tool's own code was reached.
	entered bool
	result  tool.Result
	// end is set when the pipeline, and not the tool, concluded.
	end        *End
	lost       bool
	secrets    *secretLog
	settlement Settlement
	metrics    map[string]int64
}

// run is step 10: prepare, mark, run.
func (x *Executor) run(ctx context.Context, s *Session, c *Claim) (r execution) {
	r.marked, r.secrets = c.EffectSent(), &secretLog{resolver: x.o.Credentials}
	x.o.Probe.At(ctx, StepExecute, Before, c.ID, c.Class)
	defer x.o.Probe.At(ctx, StepExecute, After, c.ID, c.Class)
	if c.Over != "" {
		r.end = overEnd(c.Over)
		return r
	}
	r.catalog = s.Catalog
	spec, ok := s.Catalog.Pin.Resolve(c.ToolName)
	if !ok || spec.Version != c.ToolVersion {
		r.end = &End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeInternal, Detail: "the pin does not hold the tool that was authorized"}
		return r
	}
	r.spec = spec
	if canonical.Hash(c.Arguments) != c.ArgumentsHash { // nobody authorized these
		r.end = unauthorized(outcome.CodeAuthorityRevoked, r.marked)
		r.end.Detail = "the stored arguments are not those of the hash"
		return r
	}
	if len(c.Answer) > 0 {
		r.entered, r.result = true, answered(c)
		return r
	}
	left := c.DeadlineAt.Sub(c.Now)
	if left <= 0 {
		r.end = &End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeTimeout}
		return r
	}
	timeout := min(time.Duration(spec.TimeoutSeconds)*time.Second, left)
	// One absolute deadline covers everything up to the tool's return.
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, context.DeadlineExceeded)
	defer cancel()
	x.call(ctx, s, c, timeout, &r)
	return r
}

func overEnd(code string) *End {
	end := &End{Outcome: tool.OutcomeFailed, Reason: code}
	if code == outcome.CodeUncertainRepeat {
		end.Outcome = tool.OutcomeDenied
	}
	return end
}

// answered is the result of a suspended call whose answer has come.
func answered(c *Claim) tool.Result {
	var text string
	if json.Unmarshal(c.Answer, &text) != nil {
		text = string(c.Answer)
	}
	r := tool.Succeed(tool.Text(text))
	if c.SuspendedKind == "child_run" {
		r.OutputTrust = tool.ExternalUntrusted
	}
	return r
}

func (x *Executor) call(ctx context.Context, s *Session, c *Claim, timeout time.Duration, r *execution) {
	impl, err := x.o.Tools.Tool(ctx, c.TenantID, r.spec)
	if err != nil {
		r.end = x.noRoute(ctx, c, err)
		return
	}
	exec, release, err := x.environment(ctx, s, c, timeout, r)
	if err != nil {
		r.end = &End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeInternal, Detail: err.Error()}
		return
	}
	defer release()
	if p, ok := impl.(tool.Preparer); ok {
		if err := guarded(func() error { return p.Prepare(ctx, c.Arguments, exec) }); err != nil {
			r.end = x.noRoute(ctx, c, err)
			return
		}
	}
	if r.spec.SideEffect != tool.EffectNone && !x.mark(ctx, c, r) {
		return
	}
	// The last thing before the effect: the lease's own clock.
	if err := ctx.Err(); err != nil {
		r.end = x.interrupted(ctx, c, r)
		return
	}
	if !c.held() {
		r.lost = true
		return
	}
	r.entered = true
	err = guarded(func() (err error) { r.result, err = impl.Execute(ctx, c.Arguments, exec); return err })
	switch {
	case ctx.Err() != nil && (err != nil || !r.result.OK):
		r.end = x.interrupted(ctx, c, r)
	case err != nil:
		r.end = x.defect(c, r, err)
	case r.result.OK == (r.result.Failure != nil):
		r.end = x.defect(c, r, errors.New("the tool returned neither success nor failure, or both"))
	}
}

// guarded turns a tool's panic into its defect.
func guarded(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return do()
}

// noRoute ends a call before its watermark.
func (x *Executor) noRoute(ctx context.Context, c *Claim, err error) *End {
	var u *tool.Unavailable
	switch {
	case errors.As(err, &u):
		return &End{Outcome: tool.OutcomeUnavailable, Reason: u.Code, Detail: u.Detail}
	case ctx.Err() != nil:
		return x.interrupted(ctx, c, &execution{marked: c.EffectSent()})
	case errors.Is(err, registry.ErrToolNotFound):
		return &End{Outcome: tool.OutcomeUnavailable, Reason: outcome.CodeWithdrawn, Detail: err.Error()}
	default:
		return &End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeInternal, Detail: err.Error()}
	}
}

// mark asks for authority and watermark; false means that the call ends here.
func (x *Executor) mark(ctx context.Context, c *Claim, r *execution) bool {
	if covered(x.o.Disabled, r.spec.Name) {
		r.end = unauthorized(outcome.CodeAgentDisabled, r.marked)
		return false
	}
	v, err := x.o.Store.Mark(ctx, &Mark{
		Tenant: c.TenantID, ID: c.ID, Attempt: c.Attempt, Claim: c.ClaimID, Scopes: r.spec.RequiredScopes,
	})
	switch {
	case err != nil:
		if ctx.Err() != nil {
			r.end = x.interrupted(ctx, c, r)
			return false
		}
		r.lost = true // nothing is known of the watermark: recovery reads the row
		return false
	case v.Code == Fenced:
		r.lost = true
		return false
	case v.Code == outcome.CodeTimeout, v.Code == outcome.CodeRunCancelled, v.Code == outcome.CodeNotStarted:
		r.end = c.stopped(v.Code, r.marked)
		return false
	case v.Code != "":
		r.end = unauthorized(v.Code, v.Earlier)
		return false
	}
	r.marked, r.fenced, c.EffectSentAt = true, true, v.SentAt
	return true
}

// unauthorized ends a call whose authority is gone: a denial when nothing was
// sent, a failure that says so when an earlier attempt may have sent something.
func unauthorized(code string, earlier bool) *End {
	if earlier {
		return &End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeAuthorityRevokedAfterEffect}
	}
	return &End{Outcome: tool.OutcomeDenied, Reason: code}
}

// stopped ends a call that was stopped: uncertain when it may have had an
// effect that must not be repeated, otherwise failed with the reason.
func (c *Claim) stopped(code string, marked bool) *End {
	if marked && c.Class == tool.NonIdempotent {
		return &End{Outcome: tool.OutcomeUncertain, Reason: outcome.CodeOutcomeUnknown}
	}
	return &End{Outcome: tool.OutcomeFailed, Reason: code}
}

// interrupted says what a context that ended means for the call.
func (x *Executor) interrupted(ctx context.Context, c *Claim, r *execution) *End {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, ErrRunOver):
		return c.stopped(outcome.CodeRunCancelled, r.marked)
	case errors.Is(cause, context.DeadlineExceeded):
		return c.stopped(outcome.CodeTimeout, r.marked)
	}
	r.lost = true
	return nil
}

// defect ends a call whose tool broke. Past the watermark nobody knows how far
// it came.
func (x *Executor) defect(c *Claim, r *execution, err error) *End {
	x.o.Logger.Error("tool is defective", "tool_name", c.ToolName, "invocation_id", c.ID.String())
	end := c.stopped(outcome.CodeInternal, r.marked)
	end.Detail = err.Error()
	return end
}
