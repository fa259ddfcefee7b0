package registry

import (
	"fmt"
	"slices"

	"github.com/toolbus/toolbus/tool"
)

// Admitter is the part of a policy profile that a session's tool set depends on.
type Admitter interface {
	// Admits reports false only for a tool that the profile denies whatever the
	// arguments, their trust and the principal are.
	Admits(spec tool.Spec) bool
}

// Environment is what the deployment a session runs in can do.
type Environment struct {
	// Disabled are patterns of tools that an operator switched off.
	Disabled []string
	// Unavailable are targets that nothing here can execute, such as sandbox on a
	// machine without one.
	Unavailable []tool.Target
}

// Filter is the four filters that make a session's set (specification,
// "Resolution").
type Filter struct {
	// Tools are the patterns of the agent's configuration, see [ValidPattern]. No
	// pattern means no tool.
	Tools []string
	// Scopes are those the principal holds.
	Scopes []string
	// Policy is the profile; nil filters nothing, policy still judges each call.
	Policy Admitter
	// Environment is the deployment.
	Environment Environment
}

// Validate refuses patterns that could never match, so that a misspelled one is
// an error for whoever wrote it and not an agent without tools.
func (f Filter) Validate() error {
	for i, p := range f.Tools {
		if !ValidPattern(p) {
			return fmt.Errorf("tool pattern %d is malformed", i+1)
		}
	}
	for i, p := range f.Environment.Disabled {
		if !ValidPattern(p) {
			return fmt.Errorf("disabled pattern %d is malformed", i+1)
		}
	}
	return nil
}

// admits applies the filters in their order.
func (f Filter) admits(spec tool.Spec) bool {
	if !matchAny(f.Tools, spec.Name) {
		return false
	}
	for _, scope := range spec.RequiredScopes {
		if !slices.Contains(f.Scopes, scope) {
			return false
		}
	}
	if f.Policy != nil && !f.Policy.Admits(spec) {
		return false
	}
	return !matchAny(f.Environment.Disabled, spec.Name) &&
		!slices.Contains(f.Environment.Unavailable, spec.TargetKind)
}

// SpecsForSession lists the tools that pass the four filters, sorted by name,
// hidden ones included: they stay callable. The result is made to be pinned.
func (r *Registry) SpecsForSession(f Filter) []tool.Spec {
	return r.specs(f.admits)
}
