package registry

import (
	"fmt"
	"slices"

	"github.com/toolbus/toolbus/tool"
)

// shippedDomains is the partition of the specification ("Names") as far as it
// belongs to the build; true marks a domain that holds control tools only.
func shippedDomains() map[string]bool {
	return map[string]bool{
		"system": false, "math": false, "workspace": false, "sandbox": false, "artifact": false,
		"demo": false, "delegate": false,
		"conversation": true, "context": true, "tool": true,
		"skill": false, "memory": false, "schedule": false,
		"knowledge": false, "web": false, "browser": false, "email": false, "people": false,
		"image": false, "video": false,
	}
}

// ControlTools lists the names of the five control tools, sorted (Decision 25).
// The set is closed: these are control tools and nothing else is.
func ControlTools() []string {
	return []string{"context.update_working_state", "conversation.ask_user", "delegate.run", "skill.load", "tool.call"}
}

// checkExtraDomains refuses a build that declares a domain which is not a word
// of the grammar or never its own to give.
func checkExtraDomains(extra []string) error {
	for _, domain := range extra {
		if !validSegment(domain) {
			return fmt.Errorf("extra domain %q: not a name segment", domain)
		}
		if domain == "mcp" || domain == "device" || shippedDomains()[domain] {
			return fmt.Errorf("extra domain %q: reserved", domain)
		}
	}
	return nil
}

// checkDomain holds each source to its own part of the namespace, which is what
// stops a server from shadowing a tool of the build and the reverse.
func checkDomain(spec tool.Spec, limits Limits) *SpecError {
	domain := Domain(spec.Name)
	owner := map[string]tool.Source{"mcp": tool.MCP, "device": tool.Device}
	if source, reserved := owner[domain]; reserved {
		if spec.Source != source {
			return breaks("name", RuleReservedDomain, "domain "+domain+" belongs to source "+string(source))
		}
		return nil
	}
	if spec.Source == tool.MCP || spec.Source == tool.Device {
		return breaks("name", RuleForeignDomain, "source "+string(spec.Source)+" registers in its own domain only")
	}
	controlOnly, shipped := shippedDomains()[domain]
	switch {
	case controlOnly && !slices.Contains(ControlTools(), spec.Name):
		return breaks("name", RuleControlDomain, "")
	case !shipped && !slices.Contains(limits.ExtraDomains, domain):
		return breaks("name", RuleUnknownDomain, "")
	}
	return nil
}

// checkControl: a control tool changes the state of a run and is a piece of the
// runtime, so it has no outside effect, may be repeated, and is one of five.
func checkControl(spec tool.Spec, _ Limits) *SpecError {
	if (spec.Kind == tool.Control) != slices.Contains(ControlTools(), spec.Name) {
		return breaks("kind", RuleControlClosed, "")
	}
	if spec.Kind != tool.Control {
		return nil
	}
	switch {
	case spec.Source != tool.Builtin:
		return breaks("source", RuleControlShape, "")
	case spec.TargetKind != tool.InProcess:
		return breaks("target_kind", RuleControlShape, "")
	case spec.SideEffect != tool.EffectNone:
		return breaks("side_effect", RuleControlShape, "")
	case spec.Idempotency != tool.ReadOnly && spec.Idempotency != tool.Idempotent:
		return breaks("idempotency", RuleControlShape, "")
	}
	return nil
}
