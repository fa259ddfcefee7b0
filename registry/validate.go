package registry

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolbus/toolbus/tool"
)

// DefaultMaximumOutputBytes is the global ceiling where [Limits] names none
// (contract section 7, output.maximum_bytes).
const DefaultMaximumOutputBytes = 1 << 20

const (
	maximumVersionBytes = 128
	maximumScopeBytes   = 128
)

// Limits is what registration checks a declaration against beside the fixed
// rules. The zero value stands for the shipped domains and the default ceiling.
type Limits struct {
	// MaximumOutputBytes is the global ceiling of [tool.Spec.MaximumOutputBytes];
	// 0 means [DefaultMaximumOutputBytes]. A declaration above it is refused, not
	// clamped.
	MaximumOutputBytes int
	// ExtraDomains are the domains a custom build adds for its own builtins.
	ExtraDomains []string
}

func (l Limits) ceiling() int {
	if l.MaximumOutputBytes > 0 {
		return l.MaximumOutputBytes
	}
	return DefaultMaximumOutputBytes
}

// Rule names a registration rule, stable and safe to log and to publish.
type Rule string

// The registration rules.
const (
	RuleNameGrammar     Rule = "name_grammar"     // two or more segments, 96 bytes at most
	RuleReservedDomain  Rule = "reserved_domain"  // mcp and device belong to their sources
	RuleForeignDomain   Rule = "foreign_domain"   // a domain of the build, claimed by a remote source
	RuleUnknownDomain   Rule = "unknown_domain"   // neither shipped nor declared by the build
	RuleControlDomain   Rule = "control_domain"   // conversation, context and tool hold control tools only
	RuleControlClosed   Rule = "control_closed"   // exactly five tools are control
	RuleControlShape    Rule = "control_shape"    // no effect, repeatable, in process, of the build
	RuleClosedSet       Rule = "closed_set"       // an enumeration with an unknown word
	RuleText            Rule = "text"             // text that cannot be stored or hashed
	RulePositive        Rule = "positive"         // must be above zero
	RuleCeiling         Rule = "ceiling"          // above the global ceiling
	RuleSourceTarget    Rule = "source_target"    // source, target, server and device disagree
	RuleServerID        Rule = "server_id"        // not the grammar of a server id
	RuleScopeConfined   Rule = "scope_confined"   // an MCP tool requires scopes of its server only
	RuleWebProvider     Rule = "web_provider"     // that target is for untrusted network reads only
	RuleUnsubscribe     Rule = "unsubscribe"      // that target is email.unsubscribe and nothing else
	RuleSchema          Rule = "schema"           // a schema outside the supported dialect and caps
	RuleDuplicate       Rule = "duplicate"        // the name is taken
	RuleSourceRefused   Rule = "source_refused"   // this source does not register here
	RuleCatalogConflict Rule = "catalog_conflict" // two remote tools with one registry name
)

// SpecError says which rule a declaration breaks. Its text holds nothing that a
// remote party chose but a registry name of valid grammar.
type SpecError struct {
	// Name is the registry name as declared; it may be malformed.
	Name string
	// Field is the JSON name of the field that breaks the rule.
	Field string
	Rule  Rule
	// Detail says more for an operator, such as the reason a schema was refused
	// and the path where; never text of a remote party.
	Detail string
}

// Error names the tool, the field and the rule.
func (e *SpecError) Error() string {
	who := "a tool with a malformed name"
	if ValidName(e.Name) {
		who = "tool " + e.Name
	}
	text := "registration of " + who + " refused: " + e.Field + " breaks rule " + string(e.Rule)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Harden gives spec with every value forced that its source may not choose: the
// output of mcp, device and sandbox tools is external_untrusted, and an MCP tool
// runs beside no other call and has no output schema (specification, "ToolSpec,
// completed" and the mapping of MCP tools). These values are overwritten rather
// than validated, so that no declaration can make a claim about its own
// trustworthiness.
func Harden(spec tool.Spec) tool.Spec {
	if spec.Source.ForcesUntrusted() {
		spec.OutputTrust = tool.ExternalUntrusted
	}
	if spec.Source == tool.MCP {
		spec.AllowParallel, spec.OutputSchema = false, nil
	}
	return spec
}

// ValidateSpec checks a declaration against every registration rule and returns
// the first that it breaks as a [*SpecError]. What [Harden] overwrites is not
// checked.
func ValidateSpec(spec tool.Spec, limits Limits) error {
	spec = Harden(spec)
	checks := []func(tool.Spec, Limits) *SpecError{
		checkName, checkEnums, checkTexts, checkDomain, checkControl,
		checkSource, checkPinnedTargets, checkScopes, checkBounds, checkSchemas,
	}
	for _, check := range checks {
		if broken := check(spec, limits); broken != nil {
			broken.Name = spec.Name
			return broken
		}
	}
	return nil
}

func breaks(field string, rule Rule, detail string) *SpecError {
	return &SpecError{Field: field, Rule: rule, Detail: detail}
}

func checkName(spec tool.Spec, _ Limits) *SpecError {
	if !ValidName(spec.Name) {
		return breaks("name", RuleNameGrammar, "")
	}
	return nil
}

func checkEnums(spec tool.Spec, _ Limits) *SpecError {
	for _, enum := range []struct {
		field string
		valid bool
	}{
		{"kind", spec.Kind.Valid()},
		{"source", spec.Source.Valid()},
		{"target_kind", spec.TargetKind.Valid()},
		{"side_effect", spec.SideEffect.Valid()},
		{"risk", spec.Risk.Valid()},
		{"idempotency", spec.Idempotency.Valid()},
		{"output_trust", spec.OutputTrust.Valid()}, // required: there is no default
	} {
		if !enum.valid {
			return breaks(enum.field, RuleClosedSet, "")
		}
	}
	return nil
}

// checkTexts refuses what a later stage could not carry: the version is a field
// of the idempotency key, whose fields are separated by NUL, and the database
// stores neither NUL nor broken UTF-8.
func checkTexts(spec tool.Spec, _ Limits) *SpecError {
	if len(spec.Version) == 0 || len(spec.Version) > maximumVersionBytes || !printable(spec.Version) {
		return breaks("version", RuleText, "1 to 128 printable ASCII characters")
	}
	if !utf8.ValidString(spec.Description) || strings.ContainsRune(spec.Description, 0) {
		return breaks("description", RuleText, "valid UTF-8 without NUL")
	}
	if spec.Description == "" && !spec.Source.ForcesUntrusted() {
		return breaks("description", RuleText, "a tool of the build says what it does")
	}
	return nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func checkBounds(spec tool.Spec, limits Limits) *SpecError {
	switch {
	case spec.TimeoutSeconds <= 0:
		return breaks("timeout_seconds", RulePositive, "")
	case spec.MaximumOutputBytes <= 0:
		return breaks("maximum_output_bytes", RulePositive, "")
	case spec.MaximumOutputBytes > limits.ceiling():
		return breaks("maximum_output_bytes", RuleCeiling, "at most "+strconv.Itoa(limits.ceiling()))
	}
	return nil
}

// checkScopes confines an MCP tool to scopes of its own server: a scope that
// principals hold for other reasons would grant where it should restrict.
func checkScopes(spec tool.Spec, _ Limits) *SpecError {
	for _, scope := range spec.RequiredScopes {
		if len(scope) == 0 || len(scope) > maximumScopeBytes || !printable(scope) {
			return breaks("required_scopes", RuleText, "1 to 128 printable ASCII characters")
		}
		if spec.Source != tool.MCP {
			continue
		}
		segments := strings.Split(scope, ".")
		if len(segments) < 2 || segments[0] != "mcp" || segments[1] != spec.ServerID {
			return breaks("required_scopes", RuleScopeConfined, "")
		}
	}
	return nil
}

// checkPinnedTargets holds the two targets that open a network transport to the
// one declaration they were made for.
func checkPinnedTargets(spec tool.Spec, _ Limits) *SpecError {
	if spec.TargetKind == tool.WebProvider && (spec.SideEffect != tool.NetworkRead ||
		spec.Idempotency != tool.ReadOnly || spec.OutputTrust != tool.ExternalUntrusted) {
		return breaks("target_kind", RuleWebProvider, "")
	}
	endpoint, unsubscribe := spec.TargetKind == tool.UnsubscribeEndpoint, spec.Name == "email.unsubscribe"
	if !endpoint && !unsubscribe {
		return nil
	}
	if !endpoint || !unsubscribe || spec.SideEffect != tool.ExternalWrite || spec.Risk != tool.RiskMedium ||
		spec.Idempotency != tool.Idempotent || spec.AllowParallel {
		return breaks("target_kind", RuleUnsubscribe, "")
	}
	return nil
}

// checkSource keeps source, target, domain and owner telling one story.
func checkSource(spec tool.Spec, _ Limits) *SpecError {
	if (spec.Source == tool.MCP) != (spec.ServerID != "") {
		return breaks("server_id", RuleSourceTarget, "")
	}
	if (spec.Source == tool.Device) != (spec.DeviceID != "") {
		return breaks("device_id", RuleSourceTarget, "")
	}
	if !slices.Contains(targetsOf(spec.Source), spec.TargetKind) {
		return breaks("target_kind", RuleSourceTarget, "")
	}
	if spec.Source == tool.Device && (len(spec.DeviceID) > maximumScopeBytes || !printable(spec.DeviceID)) {
		return breaks("device_id", RuleText, "1 to 128 printable ASCII characters")
	}
	if spec.Source != tool.MCP {
		return nil
	}
	if !ValidServerID(spec.ServerID) {
		return breaks("server_id", RuleServerID, "")
	}
	segments := strings.Split(spec.Name, ".")
	if len(segments) != 3 || segments[1] != spec.ServerID || len(segments[2]) > maximumRemoteBytes {
		return breaks("name", RuleSourceTarget, "mcp.{server_id}.{name}")
	}
	return nil
}

// targetsOf lists where a tool of that source may be executed.
func targetsOf(source tool.Source) []tool.Target {
	switch source {
	case tool.MCP:
		return []tool.Target{tool.MCPTarget}
	case tool.Device:
		return []tool.Target{tool.DeviceTarget}
	case tool.SandboxSrc:
		return []tool.Target{tool.SandboxTarget}
	case tool.Builtin:
		return []tool.Target{tool.InProcess, tool.WebProvider, tool.BrowserProvider, tool.UnsubscribeEndpoint}
	}
	return nil
}
