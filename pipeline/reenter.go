package pipeline

import (
	"context"
	"time"

	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/policy"
	"github.com/toolbus/toolbus/tool"
)

// Reentry is what steps 2, 3 and 6 say about a call that waited for an
// approval, asked again when the answer is there.
type Reentry struct {
	PolicyVersion  string
	MatrixRow      string
	RequiredScopes []string
	// End is set when the call may no longer run, approved or not.
	End *End
}

// Reenter asks agent, scopes and policy again for a waiting call (specification,
// step 7: "resume re-enters at 6"). A policy that still requires an approval is
// satisfied by the one in hand; only a denial overrides it. It is pure but for
// the profile, which is immutable.
func (a *Admitter) Reenter(ctx context.Context, s *Session, row *Invocation) Reentry {
	spec, ok := s.Catalog.Pin.Resolve(row.ToolName)
	if !ok || spec.Version != row.ToolVersion {
		return Reentry{End: &End{Outcome: tool.OutcomeDenied, Reason: outcome.CodeAuthorityRevoked}}
	}
	r := Reentry{RequiredScopes: spec.RequiredScopes}
	if r.End = a.enabled(s, spec); r.End != nil {
		return r
	}
	if r.End = scoped(s, spec); r.End != nil {
		return r
	}
	d := a.o.Profiles[s.Profile].Evaluate(ctx, policy.Input{
		Spec: spec, Arguments: row.Arguments, ArgumentTrust: row.ArgumentTrust, OriginTrust: row.OriginTrust,
		Principal: s.Principal, AgentID: s.AgentID, SessionID: s.ID.String(), TenantID: s.TenantID,
	})
	r.PolicyVersion, r.MatrixRow = d.PolicyVersion, d.Row
	if d.Effect == policy.Deny {
		r.End = &End{Outcome: tool.OutcomeDenied, Reason: d.Code}
	}
	return r
}

// Waiting are the facts of an approval decision, read under the locks of run,
// call and approval.
type Waiting struct {
	Now       time.Time
	RunStatus RunStatus
	Status    tool.Status
	Approval  Approval
	Revoked   []string
	// DeadlineAt of the call.
	DeadlineAt time.Time
}

// Resolution is what an approval decision does.
type Resolution struct {
	// Refused is the code with which the command is refused; empty when it is
	// applied.
	Refused string
	// Authorize moves the call on; otherwise End ends it.
	Authorize bool
	End       *End
	Decision  ApprovalDecision
}

// ResolveApproval decides what an answer to an approval does. It is pure.
//
// An answer that comes too late changes nothing, except that the expiry it ran
// into is recorded on the spot: the sweep is not what makes an approval expire.
func ResolveApproval(w Waiting, approve bool, actor, comment string, again Reentry) Resolution {
	switch {
	case w.Approval.Decision != "":
		return Resolution{Refused: "already_decided"}
	case w.Status != tool.WaitingForApproval:
		return Resolution{Refused: "not_waiting"}
	case w.RunStatus != RunOpen:
		return Resolution{Refused: "run_over"}
	case !w.Now.Before(w.Approval.ExpiresAt):
		return expired(w)
	}
	r := Resolution{Decision: ApprovalDecision{Decision: "denied", By: actor, Comment: comment}}
	if !approve {
		r.End = &End{Outcome: tool.OutcomeDenied, Reason: policy.MatrixCode(w.Approval.MatrixRow)}
		return r
	}
	r.Decision.Decision = "approved"
	switch {
	case again.End != nil:
		r.End = again.End
	case revoked(again.RequiredScopes, w.Revoked):
		r.End = &End{Outcome: tool.OutcomeDenied, Reason: outcome.CodeScopeMissing}
	default:
		r.Authorize = true
	}
	return r
}

func expired(w Waiting) Resolution {
	end := &End{Outcome: tool.OutcomeDenied, Reason: outcome.CodeApprovalExpired}
	if !w.DeadlineAt.IsZero() && !w.Now.Before(w.DeadlineAt) {
		end = &End{Outcome: tool.OutcomeFailed, Reason: outcome.CodeTimeout}
	}
	return Resolution{Refused: "expired", End: end, Decision: ApprovalDecision{Decision: "expired"}}
}
