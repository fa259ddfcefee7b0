package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/tool"
)

// profileWith is the shipped matrix behind operator rules, each
// "name: when -> decision".
func profileWith(t testing.TB, rules ...string) *Profile {
	t.Helper()
	p, err := Parse(documentWith(rules...))
	if err != nil {
		t.Fatalf("profile does not load: %v", err)
	}
	return p
}

func documentWith(rules ...string) []byte {
	var b strings.Builder
	b.WriteString("rules:")
	if len(rules) == 0 {
		b.WriteString(" []")
	}
	b.WriteString("\n")
	for _, r := range rules {
		name, rest, _ := strings.Cut(r, ": ")
		when, decision, _ := strings.Cut(rest, " -> ")
		fmt.Fprintf(&b, "  - name: %s\n    when: %q\n    decision: %s\n", name, when, decision)
	}
	return []byte(strings.Replace(string(ShippedDocument()), "rules: []\n", b.String(), 1))
}

func write(arguments string) Input {
	return Input{
		Spec: tool.Spec{
			Name: "mcp.crm.update", Version: "1", Kind: tool.Capability, SideEffect: tool.ExternalWrite,
			Risk: tool.RiskHigh, Idempotency: tool.NonIdempotent, TargetKind: tool.MCPTarget,
			Source: tool.MCP, ServerID: "crm", OutputTrust: tool.ExternalUntrusted,
		},
		Arguments:   []byte(arguments),
		OriginTrust: tool.User,
		Principal:   tool.Principal{ID: "ada", Interactive: true},
		AgentID:     "clerk", SessionID: "s-1", TenantID: "acme",
	}
}

func TestInvalidProfiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/invalid/*.yaml")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d invalid profiles, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			doc, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(doc), "\n")
			wanted, ok := strings.CutPrefix(first, "# want: ")
			if !ok {
				t.Fatal("the file does not say what is wrong with it")
			}
			p, err := Parse(doc)
			if p != nil || !errors.Is(err, ErrProfile) || !strings.Contains(err.Error(), wanted) {
				t.Errorf("Parse = %v, %v; want no profile and an error with %q", p, err, wanted)
			}
		})
	}
}

func TestVersionNamesTheDocument(t *testing.T) {
	t.Parallel()
	p := shippedProfile(t)
	if !strings.HasPrefix(p.Version(), "default@") || len(p.Version()) != len("default@")+12 {
		t.Errorf("version %q", p.Version())
	}
	edited, err := Parse(append(ShippedDocument(), "# edited\n"...))
	if err != nil {
		t.Fatal(err)
	}
	if edited.Version() == p.Version() {
		t.Error("an edited document has the same version")
	}
	if got := p.Evaluate(t.Context(), write(`{}`)).PolicyVersion; got != p.Version() {
		t.Errorf("decision carries version %q", got)
	}
}

func TestOperatorRules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, when string
		arguments  string
		matches    bool
	}{
		{"tool name", `tool.name == 'mcp.crm.update'`, `{}`, true},
		{"every tool field", `tool.kind == 'capability' && tool.side_effect == 'external_write' && tool.risk == 'high' &&
			tool.idempotency == 'non_idempotent' && tool.target == 'mcp' && tool.source == 'mcp' &&
			tool.output_trust == 'external_untrusted' && tool.domain == 'mcp' && tool.server_id == 'crm'`, `{}`, true},
		{"who and where", `principal.id == 'ada' && principal.interactive && agent.id == 'clerk' &&
			session.id == 's-1' && session.tenant == 'acme' && origin_trust == 'user'`, `{}`, true},
		{"argument", `arguments.stage == 'production'`, `{"stage":"production"}`, true},
		{"argument differs", `arguments.stage == 'production'`, `{"stage":"test"}`, false},
		{"absent argument with has", `has(arguments.stage) && arguments.stage == 'production'`, `{}`, false},
		{"integer", `arguments.n > 5`, `{"n":6}`, true},
		{"exact beyond 2^53", `arguments.n == 9007199254740993`, `{"n":9007199254740993}`, true},
		{"not its neighbour", `arguments.n == 9007199254740993`, `{"n":9007199254740992}`, false},
		{"fraction", `arguments.n > 0.25`, `{"n":0.5}`, true},
		{"integer of 60 digits", `arguments.n > 5`, `{"n":` + strings.Repeat("9", 60) + `}`, true},
		{"nested", `arguments.to.exists(x, x.endsWith('@evil.example'))`, `{"to":["a@evil.example"]}`, true},
		{"nested number", `arguments.a.b[0] == 2`, `{"a":{"b":[2]}}`, true},
		{"type of argument", `type(arguments.n) == string`, `{"n":1}`, false},
		{"labelled", `trust_at_least(argument_trust.path, 'user')`, `{"path":"x"}`, true},
		{"unlabelled is untrusted", `argument_trust.other == 'external_untrusted'`, `{"other":"x"}`, true},
		{"bad label is untrusted", `argument_trust['forged'] == 'external_untrusted'`, `{"forged":"x"}`, true},
		{"absent is untrusted", `argument_trust['nowhere'] == 'external_untrusted'`, `{}`, true},
		{"every argument is labelled", `argument_trust.all(k, trust_at_least(argument_trust[k], 'user'))`, `{"path":"x","other":"y"}`, false},
		{"labels of absent arguments do not count", `size(argument_trust) == 1`, `{"path":"x"}`, true},
		{"order", `trust_below('internal_tool', origin_trust) && risk_at_least(tool.risk, 'medium') && risk_at_most(tool.risk, 'high')`, `{}`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := profileWith(t, "mine: "+strings.Join(strings.Fields(tc.when), " ")+" -> allow")
			in := write(tc.arguments)
			in.ArgumentTrust = map[string]tool.Trust{"path": tool.User, "forged": "root"}
			got := p.Evaluate(t.Context(), in)
			expected := Decision{Effect: RequireApproval, Row: "external_write", Code: "policy.matrix.external_write", PolicyVersion: p.Version()}
			if tc.matches {
				// Allowed, for a failure would deny.
				expected = Decision{Effect: Allow, Row: "rule.mine", Code: CodeRuleDenied, PolicyVersion: p.Version()}
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRulesStandBeforeTheMatrix(t *testing.T) {
	t.Parallel()
	p := profileWith(t, "first: arguments.a == 1 -> allow", "second: true -> deny")
	if got := p.Evaluate(t.Context(), write(`{"a":1}`)); got.Effect != Allow || got.Row != "rule.first" {
		t.Errorf("the first match does not win: %+v", got)
	}
	if got := p.Evaluate(t.Context(), write(`{"a":2}`)); got.Effect != Deny || got.Row != "rule.second" {
		t.Errorf("the second rule does not follow: %+v", got)
	}
}

// TestFailureDenies: whatever goes wrong while a rule that would allow is
// evaluated, the call is denied, even where a later row would have allowed it.
func TestFailureDenies(t *testing.T) {
	t.Parallel()
	harmless := write(`{}`)
	harmless.Spec.SideEffect = tool.EffectNone
	big := `{"s":"` + strings.Repeat("a", 40_000) + `","l":[` + strings.TrimSuffix(strings.Repeat("1,", 5_000), ",") + `]}`
	for _, tc := range []struct{ name, when, arguments string }{
		{"absent argument", `arguments.path == 'x'`, `{}`},
		{"argument of another type", `arguments.n > 5`, `{"n":"many"}`},
		{"argument is no bool", `arguments.flag && true`, `{"flag":"yes"}`},
		{"division by zero", `1 / int(arguments.n) == 1`, `{"n":0}`},
		{"word outside the set", `trust_at_least(arguments.t, 'user')`, `{"t":"root"}`},
		{"cost of a loop", `arguments.l.all(x, arguments.l.all(y, x == y))`, big},
		{"cost of a text", `arguments.s.matches('(a|b)*c') || arguments.l.all(x, !arguments.s.contains('bbbb'))`, big},
		{"arguments are missing", `has(arguments.path)`, ``},
		{"arguments are no JSON", `has(arguments.path)`, `{"path":`},
		{"arguments are no object", `has(arguments.path)`, `["path"]`},
		{"arguments are null", `size(arguments) == 0`, `null`},
		{"arguments and more", `has(arguments.path)`, `{"path":1} {"path":2}`},
		{"a number no double holds", `has(arguments.n)`, `{"n":1e999}`},
		{"such a number below", `has(arguments.n)`, `{"n":[{"m":1e999}]}`},
		{"labels of no object", `argument_trust.all(k, true)`, `7`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := profileWith(t, "broken: "+tc.when+" -> allow")
			in := harmless
			in.Arguments = []byte(tc.arguments)
			got := p.Evaluate(t.Context(), in)
			expected := Decision{Effect: Deny, Row: "rule.broken", Code: CodeRuleDenied, PolicyVersion: p.Version()}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			control := profileWith(t, "fine: size(tool.name) == 0 -> allow").Evaluate(t.Context(), in)
			if control.Effect != Allow {
				t.Errorf("the call is not one that the matrix allows: %+v", control)
			}
		})
	}
}

func TestWithoutProfileNothingPasses(t *testing.T) {
	t.Parallel()
	var none *Profile
	in := write(`{}`)
	in.Spec.Kind, in.Spec.SideEffect = tool.Control, tool.EffectNone
	for name, p := range map[string]*Profile{"nil": none, "zero": {}} {
		if got := p.Evaluate(t.Context(), in); got.Effect != Deny || got.Code != CodeRuleDenied {
			t.Errorf("%s profile: %+v", name, got)
		}
		if p.Admits(in.Spec) {
			t.Errorf("%s profile admits a tool", name)
		}
		if p.UnknownTool().Effect != Deny {
			t.Errorf("%s profile: an unknown tool is not denied", name)
		}
	}
	empty, err := Parse([]byte("version: 1\nname: empty\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := empty.Evaluate(t.Context(), in); got.Effect != Deny || got.Row != "" || got.Code != CodeRuleDenied {
		t.Errorf("a profile without rows: %+v", got)
	}
	in.Spec.Kind, in.Spec.SideEffect = "wish", "teleport"
	if got := shippedProfile(t).Evaluate(t.Context(), in); got.Effect != Deny || got.Code != CodeRuleDenied {
		t.Errorf("words outside every set: %+v", got)
	}
}

func TestAdmits(t *testing.T) {
	t.Parallel()
	spec := write(`{}`).Spec
	for _, tc := range []struct {
		name  string
		rules []string
		admit bool
	}{
		{"shipped", nil, true},
		{"denied by name", []string{"no: tool.name == 'mcp.crm.update' -> deny"}, false},
		{"another is denied", []string{"no: tool.name == 'mcp.crm.delete' -> deny"}, true},
		{"denied by argument", []string{"no: arguments.stage == 'production' -> deny"}, true},
		{"denied by name and argument", []string{"no: tool.name == 'mcp.crm.update' && arguments.a == 1 -> deny"}, true},
		{"denied from below user", []string{"no: trust_below(origin_trust, 'user') -> deny"}, true},
		{"denied at every trust", []string{"low: trust_below(origin_trust, 'user') -> deny", "high: trust_at_least(origin_trust, 'user') -> deny"}, false},
		{"denied to some", []string{"no: principal.id == 'eve' -> deny"}, true},
		{"denied while attended", []string{"no: principal.interactive -> deny"}, true}, // a standing authorization may serve
		{"allowed unless attended", []string{"no: principal.interactive -> deny", "yes: tool.domain == 'mcp' -> allow"}, true},
		{"allowed to some before the denial", []string{"yes: session.tenant == 'acme' -> allow", "no: true -> deny"}, true},
		{"allowed by argument before the denial", []string{"yes: argument_trust.path == 'user' -> allow", "no: true -> deny"}, true},
		{"another allowed by argument", []string{"yes: tool.name == 'a.b' && arguments.a == 1 -> allow", "no: true -> deny"}, false},
		{"a denial that may fail", []string{"no: arguments.a == 1 -> deny", "rest: true -> deny"}, false},
		{"a rule that always fails", []string{"no: 1 / (size(tool.name) - size(tool.name)) == 1 -> allow"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := profileWith(t, tc.rules...).Admits(spec); got != tc.admit {
				t.Errorf("Admits = %v, want %v", got, tc.admit)
			}
		})
	}
}

// TestAdmitsAgreesWithEvaluate: what is not admitted passes at no point of the grid.
func TestAdmitsAgreesWithEvaluate(t *testing.T) {
	t.Parallel()
	p := profileWith(t, "no-code: tool.side_effect == 'code_execution' && tool.target != 'sandbox' -> deny")
	refused := 0
	for _, at := range grid() {
		in := at.input()
		if p.Admits(in.Spec) {
			continue
		}
		refused++
		if got := p.Evaluate(t.Context(), in); got.Effect != Deny {
			t.Fatalf("%s: not admitted, and %+v", at, got)
		}
	}
	if refused == 0 {
		t.Error("everything is admitted")
	}
}

func TestConcurrentEvaluation(t *testing.T) {
	t.Parallel()
	p := profileWith(t, "mine: arguments.l.exists(x, x == 2) -> deny")
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 200 {
				in, expected := write(`{"l":[1,2]}`), Deny
				if i%2 == 0 {
					in, expected = write(`{"l":[1,3]}`), RequireApproval
				}
				if got := p.Evaluate(t.Context(), in); got.Effect != expected {
					t.Errorf("goroutine %d: %+v", i, got)
					return
				}
			}
		})
	}
	group.Wait()
}

func FuzzParse(f *testing.F) {
	f.Add(ShippedDocument())
	files, err := filepath.Glob("testdata/invalid/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		doc, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(doc)
	}
	in := write(`{"a":1}`)
	f.Fuzz(func(t *testing.T, doc []byte) {
		p, err := Parse(doc)
		if (err == nil) == (p == nil) || (err != nil && !errors.Is(err, ErrProfile)) {
			t.Fatalf("Parse = %v, %v", p, err)
		}
		got := p.Evaluate(t.Context(), in)
		if !got.Effect.Valid() || (p == nil && got.Effect != Deny) {
			t.Fatalf("decision %+v", got)
		}
		if !p.Admits(in.Spec) && got.Effect != Deny {
			t.Fatalf("not admitted, and %+v", got)
		}
	})
}
