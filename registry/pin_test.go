package registry

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/tool"
)

func newPin(t testing.TB, specs ...tool.Spec) *Pin {
	t.Helper()
	p, err := NewPin(specs)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAdvertised(t *testing.T) {
	t.Parallel()
	hidden := fetchSpec(func(s *tool.Spec) { s.Hidden = true })
	deferred := Harden(mcpSpec(func(s *tool.Spec) { s.Deferred, s.Deprecated = true, true }))
	got, err := json.Marshal(newPin(t, builtinSpec(), hidden, deferred).Advertised())
	if err != nil {
		t.Fatal(err)
	}
	// Every member of the contract, none beside them, sorted by name.
	want := `[{"name":"mcp.acme.create_ticket","alias":"mcp-acme-create_ticket","version":"1","description":"Writes a text file.",` +
		`"input_schema":` + objectSchema + `,"kind":"capability","side_effect":"external_write","output_trust":"external_untrusted","deferred":true,"deprecated":true},` +
		`{"name":"workspace.write_text","alias":"workspace-write_text","version":"1","description":"Writes a text file.",` +
		`"input_schema":` + objectSchema + `,"kind":"capability","side_effect":"workspace_write","output_trust":"internal_tool","deferred":false,"deprecated":false}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if empty, err := json.Marshal(newPin(t).Advertised()); err != nil || string(empty) != "[]" {
		t.Errorf("empty pin advertises %s, %v", empty, err)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	hidden := fetchSpec(func(s *tool.Spec) { s.Hidden = true })
	long := mcpSpec(named("mcp.acme." + strings.Repeat("x", 48)))
	p := newPin(t, builtinSpec(), hidden, long)
	for asked, want := range map[string]string{
		"workspace.write_text": "workspace.write_text",
		"workspace-write_text": "workspace.write_text",
		"web.fetch":            "web.fetch", // hidden, callable
		"web-fetch":            "web.fetch",
		Alias(long.Name):       long.Name,
		"workspace_write_text": "",
		"workspace.read_text":  "",
		"WORKSPACE.WRITE_TEXT": "",
		"":                     "",
	} {
		got, ok := p.Resolve(asked)
		if got.Name != want || ok != (want != "") {
			t.Errorf("Resolve(%q) = %q, %v; want %q", asked, got.Name, ok, want)
		}
	}
	if p.Len() != 3 {
		t.Errorf("%d tools pinned", p.Len())
	}
}

func TestPinHashes(t *testing.T) {
	t.Parallel()
	base := newPin(t, builtinSpec(), fetchSpec())
	for _, tc := range []struct {
		name         string
		p            *Pin
		tools, specs bool // whether the hash stays
	}{
		{"order of specs", newPin(t, fetchSpec(), builtinSpec()), true, true},
		{"spelling of a schema", newPin(t, fetchSpec(), builtinSpec(func(s *tool.Spec) {
			s.InputSchema = json.RawMessage(`{ "properties": {"path": {"type": "string"}}, "type": "object" }`)
		})), true, true},
		{"unadvertised field", newPin(t, fetchSpec(), builtinSpec(func(s *tool.Spec) { s.TimeoutSeconds = 11 })), true, false},
		{"another hidden tool", newPin(t, fetchSpec(), builtinSpec(), controlSpec(func(s *tool.Spec) { s.Hidden = true })), true, false},
		{"description", newPin(t, fetchSpec(), builtinSpec(func(s *tool.Spec) { s.Description = "Writes." })), false, false},
		{"version", newPin(t, fetchSpec(), builtinSpec(func(s *tool.Spec) { s.Version = "2" })), false, false},
		{"one tool less", newPin(t, builtinSpec()), false, false},
	} {
		if got := tc.p.ToolSchemaSHA256() == base.ToolSchemaSHA256(); got != tc.tools {
			t.Errorf("%s: same tool hash %v, want %v", tc.name, got, tc.tools)
		}
		if got := tc.p.SpecsSHA256() == base.SpecsSHA256(); got != tc.specs {
			t.Errorf("%s: same spec hash %v, want %v", tc.name, got, tc.specs)
		}
	}
	if got := newPin(t).ToolSchemaSHA256(); got != "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945" { // of []
		t.Errorf("hash of the empty list: %s", got)
	}
}

func TestPinRoundTrip(t *testing.T) {
	t.Parallel()
	specs := []tool.Spec{
		builtinSpec(func(s *tool.Spec) { s.Description = "1 < 2 & \u2028 \u00e9" }),
		Harden(mcpSpec(func(s *tool.Spec) { s.Deferred = true })), Harden(deviceSpec(func(s *tool.Spec) { s.Hidden = true })),
	}
	p := newPin(t, specs...)
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var read Pin
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Specs(), read.Specs()); diff != "" {
		t.Errorf("(-stored +read)\n%s", diff)
	}
	if read.ToolSchemaSHA256() != p.ToolSchemaSHA256() || read.SpecsSHA256() != p.SpecsSHA256() {
		t.Error("a hash changed on the way")
	}
	if _, ok := read.Resolve("mcp-acme-create_ticket"); !ok {
		t.Error("an alias was lost on the way")
	}
}

func TestStoredPinIsReadStrictly(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"unknown member of a tool": `{"v":1,"specs":[{"name":"a.b","requires_a_human":true}]}`,
		"unknown member":           `{"v":1,"specs":[],"epoch":2}`,
		"later version":            `{"v":2,"specs":[]}`,
		"no version":               `{"specs":[]}`,
		"a name twice":             `{"v":1,"specs":[{"name":"a.b","input_schema":{}},{"name":"a.b","input_schema":{}}]}`,
		"a list":                   `[]`,
	} {
		var p Pin
		if err := json.Unmarshal([]byte(data), &p); !errors.Is(err, ErrPin) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPinIsImmutable(t *testing.T) {
	t.Parallel()
	given := []tool.Spec{builtinSpec(), fetchSpec()}
	p := newPin(t, given...)
	before := p.SpecsSHA256()
	given[0].Name = "changed.name"
	p.Specs()[0].Name = "changed.name"
	p.Advertised()[0].Name = "changed.name"
	if !slices.Equal(names(p.Specs()), []string{"web.fetch", "workspace.write_text"}) || p.Advertised()[0].Name != "web.fetch" {
		t.Errorf("pin holds %v", names(p.Specs()))
	}
	if again := newPin(t, p.Specs()...); again.SpecsSHA256() != before {
		t.Error("the content changed")
	}
}

func TestPinRefusesEqualNames(t *testing.T) {
	t.Parallel()
	if _, err := NewPin([]tool.Spec{builtinSpec(), builtinSpec()}); !errors.Is(err, ErrPin) {
		t.Errorf("error %v", err)
	}
}
