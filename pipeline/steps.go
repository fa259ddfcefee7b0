package pipeline

import (
	"context"

	"github.com/toolbus/toolbus/tool"
)

// Step is one of the fourteen steps of a call (specification, "The pipeline").
type Step int

// The steps, in the only order in which a call takes them.
const (
	StepResolve Step = iota + 1
	StepAgent
	StepScopes
	StepValidate
	StepNormalize
	StepPolicy
	StepApproval
	StepIntent
	StepClaim
	StepExecute
	StepCheckResult
	StepExcerpt
	StepPersist
	StepRender
)

var stepNames = [...]string{
	"", "resolve", "agent", "scopes", "validate", "normalize", "policy", "approval",
	"intent", "claim", "execute", "check_result", "excerpt", "persist", "render",
}

// String gives the short name of the step.
func (s Step) String() string {
	if s < StepResolve || s > StepRender {
		return "unknown"
	}
	return stepNames[s]
}

// Steps lists the fourteen steps in order; the first eight are Admit's, the
// rest Execute's.
func Steps() []Step {
	all := make([]Step, 0, StepRender)
	for s := StepResolve; s <= StepRender; s++ {
		all = append(all, s)
	}
	return all
}

// Edge says on which side of a step a probe stands.
type Edge string

// The two edges of a step.
const (
	Before Edge = "before"
	After  Edge = "after"
)

// Probe is told of every step a call takes. Tests record the sequence with it,
// or stop the process there; nil does nothing. It must be safe for concurrent
// use.
type Probe func(ctx context.Context, step Step, edge Edge, invocation tool.ID, class tool.Idempotency)

// At calls the probe, if there is one.
func (p Probe) At(ctx context.Context, step Step, edge Edge, id tool.ID, class tool.Idempotency) {
	if p != nil {
		p(ctx, step, edge, id, class)
	}
}
