package policy

import (
	"context"
	"encoding/json"

	"github.com/toolbus/toolbus/tool"
)

// Effect is what a rule yields. The zero value is no effect and allows nothing.
type Effect string

// The effects.
const (
	Allow           Effect = "allow"
	RequireApproval Effect = "require_approval"
	Deny            Effect = "deny"
)

// Valid reports whether e is in the closed set.
func (e Effect) Valid() bool { return e == Allow || e == RequireApproval || e == Deny }

// Reason codes of a decision; those of the matrix are [MatrixCode] of the row.
const (
	// CodeRuleDenied is the code of a denial by an operator's rule, of a rule that
	// failed to evaluate and of a call that no rule covers.
	CodeRuleDenied = "policy.rule.denied"

	matrixPrefix = "policy.matrix."
	rulePrefix   = "rule."
)

// Rows of the matrix that are no rules and hold under every profile.
const (
	// RowUnattended turns a required approval into a denial where nobody is there
	// to approve.
	RowUnattended = "unattended"
	// RowUnknownTool denies what the session does not offer, before policy.
	RowUnknownTool = "unknown_tool"
)

// Rows lists the rows of the matrix in the order of the contract, the two that
// are no rules last. A profile's matrix uses these names and no others, so that
// every reason code it can give is in the table of reason codes.
func Rows() []string {
	return []string{
		"control", "critical", "no_effect", "workspace_read", "workspace_write", "workspace_write_untrusted",
		"network_read", "external_read", "risky_read", "sandboxed_code", "code", "platform_write_untrusted",
		"platform_write", "external_write", RowUnattended, RowUnknownTool,
	}
}

// MatrixCode gives the reason code of a row, policy.matrix.<row>.
func MatrixCode(row string) string { return matrixPrefix + row }

// Input is one proposed call as policy sees it.
type Input struct {
	// Spec is the pinned declaration.
	Spec tool.Spec
	// Arguments are the canonical arguments, a JSON object.
	Arguments json.RawMessage
	// ArgumentTrust labels top-level arguments; one that is missing or labelled
	// with a word outside the closed set is external_untrusted.
	ArgumentTrust map[string]tool.Trust
	// OriginTrust is the lowest label of what the model had read; empty means
	// external_untrusted.
	OriginTrust tool.Trust
	Principal   tool.Principal
	AgentID     string
	SessionID   string
	TenantID    string
}

// Decision is what a profile says about one call.
type Decision struct {
	Effect Effect
	// Row is what decided: a row of the matrix, rule.<name> for an operator's
	// rule, empty where nothing matched.
	Row string
	// Code is the reason code that a denial carries, whether the profile denies
	// or the approver that was asked.
	Code string
	// PolicyVersion is [Profile.Version].
	PolicyVersion string
	// Standing is the authorization that turned a required approval into an
	// allowance; the zero ID for none.
	Standing tool.ID
}

// Evaluate decides one call: the first rule that matches, then a standing
// authorization where an approval is required, then the row unattended where it
// still is and the principal is not interactive. A rule that cannot be
// evaluated, a list without a match and a nil profile deny.
//
// The result depends on the input alone. The context does not cut an evaluation
// short, its cost is bounded: a shutdown must not be recorded as a denial.
func (p *Profile) Evaluate(_ context.Context, in Input, standing ...*CompiledStanding) Decision {
	if p == nil {
		return Decision{Effect: Deny, Code: CodeRuleDenied}
	}
	vars := newVariables(&in)
	d := p.match(vars)
	if d.Effect != RequireApproval {
		return d
	}
	for _, s := range standing {
		if s.matches(vars) {
			d.Effect, d.Standing = Allow, s.id
			return d
		}
	}
	if !in.Principal.Interactive {
		d.Effect, d.Row, d.Code = Deny, RowUnattended, MatrixCode(RowUnattended)
	}
	return d
}

// UnknownTool is the decision about a name that the session does not offer.
func (p *Profile) UnknownTool() Decision {
	return Decision{Effect: Deny, Row: RowUnknownTool, Code: MatrixCode(RowUnknownTool), PolicyVersion: p.Version()}
}

// match finds the first rule that is true.
func (p *Profile) match(vars *variables) Decision {
	for i := range p.rules {
		r := &p.rules[i]
		matched, err := r.when.eval(vars)
		if err != nil {
			return Decision{Effect: Deny, Row: r.row, Code: CodeRuleDenied, PolicyVersion: p.version}
		}
		if matched {
			return Decision{Effect: r.effect, Row: r.row, Code: r.code, PolicyVersion: p.version}
		}
	}
	return Decision{Effect: Deny, Code: CodeRuleDenied, PolicyVersion: p.version}
}
