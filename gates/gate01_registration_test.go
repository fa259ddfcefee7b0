package gates

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/toolbus/toolbus/builtin"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/tool"
)

// declared is a tool that only declares itself.
type declared struct {
	tool.Tool
	spec tool.Spec
}

func (d declared) Spec() tool.Spec { return d.spec }

// declaration is a valid specification of the given source, changed by edit.
func declaration(source tool.Source, edit func(*tool.Spec)) tool.Spec {
	spec := tool.Spec{
		Name: "demo.act", Version: "1", Description: "Acts.", InputSchema: json.RawMessage(`{"type":"object"}`),
		SideEffect: tool.EffectNone, Risk: tool.RiskLow, Idempotency: tool.ReadOnly,
		TimeoutSeconds: 5, MaximumOutputBytes: 1024,
		Kind: tool.Capability, TargetKind: tool.InProcess, OutputTrust: tool.InternalTool, Source: source,
	}
	switch source {
	case tool.MCP:
		spec.Name, spec.ServerID, spec.TargetKind = "mcp.acme.act", "acme", tool.MCPTarget
	case tool.Device:
		spec.Name, spec.DeviceID, spec.TargetKind = "device.phone.act", "phone", tool.DeviceTarget
	case tool.SandboxSrc:
		spec.Name, spec.TargetKind = "sandbox.act", tool.SandboxTarget
	case tool.Builtin:
	}
	if edit != nil {
		edit(&spec)
	}
	return spec
}

func emptyRegistry(t *testing.T) *registry.Registry {
	t.Helper()
	r, err := registry.New(registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestGate01_RegistrationValidation: everything that is registered passes
// registration validation, and what breaks a rule is not registered.
func TestGate01_RegistrationValidation(t *testing.T) {
	t.Parallel()
	t.Run("every builtin", gate01Builtins)
	t.Run("refused", gate01Refused)
}

func gate01Builtins(t *testing.T) {
	t.Parallel()
	all := builtin.All(builtin.Options{})
	if len(all) == 0 {
		t.Fatal("the build has no tools")
	}
	r := emptyRegistry(t)
	for _, b := range all {
		name := b.Spec().Name
		if err := r.RegisterBuiltin(b); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := r.Get(name, b.Spec().Version)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := registry.ValidateSpec(got.Spec(), registry.Limits{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := registry.NewPin(r.Builtins()); err != nil {
		t.Errorf("the builtins cannot be pinned: %v", err)
	}
}

func gate01Refused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason string
		source tool.Source
		rule   registry.Rule
		edit   func(*tool.Spec)
	}{
		{"name grammar: capital", tool.Builtin, registry.RuleNameGrammar, func(s *tool.Spec) { s.Name = "demo.Act" }},
		{"name grammar: no dot", tool.Builtin, registry.RuleNameGrammar, func(s *tool.Spec) { s.Name = "demo" }},
		{"name grammar: hyphen", tool.MCP, registry.RuleNameGrammar, func(s *tool.Spec) { s.Name = "mcp.acme.do-it" }},
		{"name grammar: 97 characters", tool.Builtin, registry.RuleNameGrammar, func(s *tool.Spec) { s.Name = "demo." + strings.Repeat("a", 92) }},
		{"unknown domain", tool.Builtin, registry.RuleUnknownDomain, func(s *tool.Spec) { s.Name = "nowhere.act" }},
		{"remote tool in a domain of the build", tool.MCP, registry.RuleForeignDomain, func(s *tool.Spec) { s.Name = "demo.act" }},
		{"device tool in a domain of the build", tool.Device, registry.RuleForeignDomain, func(s *tool.Spec) { s.Name = "workspace.write_text" }},
		{"a sixth control tool", tool.Builtin, registry.RuleControlClosed, func(s *tool.Spec) { s.Kind = tool.Control }},
		{"control tool with an effect", tool.Builtin, registry.RuleControlShape, func(s *tool.Spec) {
			s.Name, s.Kind, s.SideEffect = "skill.load", tool.Control, tool.PlatformWrite
		}},
		{"no output trust", tool.Builtin, registry.RuleClosedSet, func(s *tool.Spec) { s.OutputTrust = "" }},
		{"source and target disagree", tool.MCP, registry.RuleSourceTarget, func(s *tool.Spec) { s.TargetKind = tool.InProcess }},
		{"builtin in the sandbox target", tool.Builtin, registry.RuleSourceTarget, func(s *tool.Spec) { s.TargetKind = tool.SandboxTarget }},
		{"scope of the platform on a remote tool", tool.MCP, registry.RuleScopeConfined, func(s *tool.Spec) { s.RequiredScopes = []string{"session.write"} }},
		{"web provider that writes", tool.Builtin, registry.RuleWebProvider, func(s *tool.Spec) {
			s.Name, s.TargetKind, s.SideEffect = "web.post", tool.WebProvider, tool.ExternalWrite
		}},
		{"unsubscribe endpoint for another tool", tool.Builtin, registry.RuleUnsubscribe, func(s *tool.Spec) { s.TargetKind = tool.UnsubscribeEndpoint }},
		{"no timeout", tool.Builtin, registry.RulePositive, func(s *tool.Spec) { s.TimeoutSeconds = 0 }},
		{"output above the global ceiling", tool.Builtin, registry.RuleCeiling, func(s *tool.Spec) {
			s.MaximumOutputBytes = registry.DefaultMaximumOutputBytes + 1
		}},
		{"dialect of a builtin", tool.Builtin, registry.RuleSchema, func(s *tool.Spec) {
			s.InputSchema = json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`)
		}},
		{"dialect of a remote tool", tool.MCP, registry.RuleSchema, func(s *tool.Spec) {
			s.InputSchema = json.RawMessage(`{"$schema":"http://json-schema.org/draft-03/schema#","type":"object"}`)
		}},
		{"remote reference", tool.MCP, registry.RuleSchema, func(s *tool.Spec) {
			s.InputSchema = json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"https://elsewhere.example/a.json"}}}`)
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			t.Parallel()
			spec := declaration(tc.source, tc.edit)
			if rule := gate01Refusal(t, spec); rule != tc.rule {
				t.Errorf("refused for %q, want %q", rule, tc.rule)
			}
		})
	}
}

// gate01Refusal registers spec the way its source registers, wants it refused
// and absent afterwards, and gives the rule it broke.
func gate01Refusal(t *testing.T, spec tool.Spec) registry.Rule {
	t.Helper()
	r := emptyRegistry(t)
	var rule registry.Rule
	if spec.Source == tool.Builtin || spec.Source == tool.SandboxSrc {
		var broken *registry.SpecError
		if !errors.As(r.RegisterBuiltin(declared{spec: spec}), &broken) {
			t.Fatal("registered")
		}
		rule = broken.Rule
	} else {
		report, err := r.RegisterDynamic(t.Context(), []tool.Spec{spec}, spec.Source)
		if err != nil || len(report.Rejected) != 1 || slices.Contains(report.Accepted, spec.Name) {
			t.Fatalf("report %+v, %v", report, err)
		}
		rule = report.Rejected[0].Reason
	}
	if _, err := r.Spec(spec.Name, ""); !errors.Is(err, registry.ErrToolNotFound) {
		t.Errorf("the refused tool is there: %v", err)
	}
	return rule
}
