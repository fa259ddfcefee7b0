package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/tool"
)

// plainTool is an implementation that does nothing.
type plainTool struct{ spec tool.Spec }

func (p plainTool) Spec() tool.Spec { return p.spec }

func (p plainTool) Execute(context.Context, json.RawMessage, *tool.Execution) (tool.Result, error) {
	return tool.Succeed(tool.Text(p.spec.Name)), nil
}

// preparedTool also prepares.
type preparedTool struct{ plainTool }

func (preparedTool) Prepare(context.Context, json.RawMessage, *tool.Execution) error {
	return errors.New("prepared")
}

func newRegistry(t testing.TB, specs ...tool.Spec) *Registry {
	t.Helper()
	r, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range specs {
		if err := r.RegisterBuiltin(plainTool{spec}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func names(specs []tool.Spec) []string {
	list := []string{}
	for _, s := range specs {
		list = append(list, s.Name)
	}
	return list
}

func TestExtraDomains(t *testing.T) {
	t.Parallel()
	for _, domain := range []string{"mcp", "device", "conversation", "context", "tool", "", "a.b", "Wms", "9"} {
		if _, err := New(Options{Limits: Limits{ExtraDomains: []string{"fine", domain}}}); err == nil {
			t.Errorf("a build may declare domain %q", domain)
		}
	}
	r, err := New(Options{Limits: Limits{ExtraDomains: []string{"warehouse"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.RegisterBuiltin(plainTool{builtinSpec(named("warehouse.count"))}); err != nil {
		t.Error(err)
	}
}

func TestRegisterBuiltin(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, builtinSpec(), sandboxSpec(func(s *tool.Spec) { s.OutputTrust = tool.Platform }))
	var broken *SpecError
	if err := r.RegisterBuiltin(plainTool{builtinSpec()}); !errors.As(err, &broken) || broken.Rule != RuleDuplicate {
		t.Errorf("registered twice: %v", err)
	}
	for _, spec := range []tool.Spec{mcpSpec(), deviceSpec()} {
		if err := r.RegisterBuiltin(plainTool{spec}); !errors.As(err, &broken) || broken.Rule != RuleSourceRefused {
			t.Errorf("source %s as a builtin: %v", spec.Source, err)
		}
	}
	if diff := cmp.Diff([]string{"sandbox.run_command", "workspace.write_text"}, names(r.Builtins())); diff != "" {
		t.Errorf("builtins (-want +got)\n%s", diff)
	}
	got, err := r.Get("sandbox.run_command", "")
	if err != nil || got.Spec().OutputTrust != tool.ExternalUntrusted {
		t.Errorf("Get = %v, %v", got, err)
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, builtinSpec())
	if err := r.RegisterBuiltin(preparedTool{plainTool{builtinSpec(named("workspace.delete"))}}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, version string
		found         bool
	}{
		{"workspace.write_text", "", true},
		{"workspace.write_text", "1", true},
		{"workspace.write_text", "2", false},
		{"workspace-write_text", "", false},
		{"workspace.unknown", "", false},
		{"", "", false},
	} {
		got, err := r.Get(tc.name, tc.version)
		if tc.found != (err == nil) || (err != nil && !errors.Is(err, ErrToolNotFound)) {
			t.Errorf("Get(%q, %q) = %v, %v", tc.name, tc.version, got, err)
		}
		if _, err := r.Spec(tc.name, tc.version); tc.found != (err == nil) {
			t.Errorf("Spec(%q, %q): %v", tc.name, tc.version, err)
		}
	}
	plain, err := r.Get("workspace.write_text", "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, prepares := plain.(tool.Preparer); prepares {
		t.Error("a tool that does not prepare became one that does")
	}
	if result, err := plain.Execute(t.Context(), nil, nil); err != nil || result.Content[0].Text != "workspace.write_text" {
		t.Errorf("Execute = %v, %v", result, err)
	}
	prepared, err := r.Get("workspace.delete", "1")
	if err != nil {
		t.Fatal(err)
	}
	preparer, prepares := prepared.(tool.Preparer)
	if !prepares || preparer.Prepare(t.Context(), nil, nil) == nil {
		t.Error("a tool that prepares lost it")
	}
}

func TestRegisterDynamicSources(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	for _, source := range []tool.Source{tool.Builtin, tool.SandboxSrc, "skill", ""} {
		if _, err := r.RegisterDynamic(t.Context(), []tool.Spec{mcpSpec()}, source); !errors.Is(err, ErrSourceRefused) {
			t.Errorf("source %q: %v", source, err)
		}
	}
	report, err := r.RegisterDynamic(t.Context(), []tool.Spec{
		mcpSpec(), deviceSpec(), builtinSpec(), controlSpec(),
		mcpSpec(named("mcp.acme.ctl"), func(s *tool.Spec) { s.Kind = tool.Control }),
		mcpSpec(named("mcp.acme.deep"), func(s *tool.Spec) { s.InputSchema = json.RawMessage(`{"type":"string"}`) }),
	}, tool.MCP)
	if err != nil {
		t.Fatal(err)
	}
	expected := Report{
		Accepted: []string{"mcp.acme.create_ticket"},
		Rejected: []Rejection{
			{"conversation.ask_user", RuleSourceRefused, "source"},
			{"device.phone.ring", RuleSourceRefused, "source"},
			{"mcp.acme.ctl", RuleControlClosed, "kind"},
			{"mcp.acme.deep", RuleSchema, "input_schema: not_object"},
			{"workspace.write_text", RuleSourceRefused, "source"},
		},
	}
	if diff := cmp.Diff(expected, report); diff != "" {
		t.Errorf("report (-want +got)\n%s", diff)
	}
}

func TestRegisterDynamicCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := newRegistry(t)
	if _, err := r.RegisterDynamic(ctx, []tool.Spec{mcpSpec()}, tool.MCP); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := r.Spec("mcp.acme.create_ticket", ""); !errors.Is(err, ErrToolNotFound) {
		t.Errorf("something was registered: %v", err)
	}
}

func TestRegisterRemoteConflicts(t *testing.T) {
	t.Parallel()
	remote := func(name string) Remote { return Remote{Name: name, Spec: mcpSpec(named(""))} }
	synthetic := Remote{Synthetic: true, Spec: mcpSpec(named(""))}
	for _, tc := range []struct {
		name      string
		catalog   []Remote
		accepted  []string
		conflicts []Conflict
	}{
		{
			"none",
			[]Remote{remote("Get Item"), remote("put"), synthetic},
			[]string{"mcp.acme.get_item", "mcp.acme.put", "mcp.acme.read_resource"},
			nil,
		},
		{
			"two",
			[]Remote{remote("put"), remote("get-item"), remote("Get Item")},
			[]string{"mcp.acme.put"},
			[]Conflict{{"mcp.acme.get_item", []string{"Get Item", "get-item"}}},
		},
		{
			"three",
			[]Remote{remote("GET_ITEM"), remote("get-item"), remote("Get Item")},
			nil,
			[]Conflict{{"mcp.acme.get_item", []string{"GET_ITEM", "Get Item", "get-item"}}},
		},
		{
			"the same twice",
			[]Remote{remote("get"), remote("get")},
			nil,
			[]Conflict{{"mcp.acme.get", []string{"get", "get"}}},
		},
		{
			"with the synthetic tool",
			[]Remote{remote("put"), synthetic, remote("Read Resource")},
			[]string{"mcp.acme.put"},
			[]Conflict{{"mcp.acme.read_resource", []string{"Read Resource"}}},
		},
		{
			"with a synthetic tool that is not there",
			[]Remote{remote("read_resource")},
			nil,
			[]Conflict{{"mcp.acme.read_resource", []string{"read_resource"}}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for turn := range len(tc.catalog) { // no order of discovery changes the outcome
				r := newRegistry(t)
				catalog := append(append([]Remote{}, tc.catalog[turn:]...), tc.catalog[:turn]...)
				report, err := r.RegisterRemote(t.Context(), "acme", catalog)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(Report{Accepted: tc.accepted, Conflicts: tc.conflicts}, report); diff != "" {
					t.Errorf("report (-want +got)\n%s", diff)
				}
				for _, c := range tc.conflicts {
					if _, err := r.Spec(c.Name, ""); !errors.Is(err, ErrToolNotFound) {
						t.Errorf("%s was registered: %v", c.Name, err)
					}
				}
			}
		})
	}
	if _, err := newRegistry(t).RegisterRemote(t.Context(), "Acme Corp", nil); err == nil {
		t.Error("a malformed server id is accepted")
	}
}

func TestRegisterDynamicDuplicates(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	report, err := r.RegisterDynamic(t.Context(), []tool.Spec{deviceSpec(), deviceSpec()}, tool.Device)
	if err != nil || len(report.Accepted) != 0 || len(report.Conflicts) != 1 || report.Conflicts[0].Name != "device.phone.ring" {
		t.Fatalf("two of one name: %+v, %v", report, err)
	}
	if report, err = r.RegisterDynamic(t.Context(), []tool.Spec{deviceSpec()}, tool.Device); err != nil || len(report.Accepted) != 1 {
		t.Fatalf("one: %+v, %v", report, err)
	}
	other := deviceSpec(func(s *tool.Spec) { s.DeviceID = "phone-8" })
	report, err = r.RegisterDynamic(t.Context(), []tool.Spec{other}, tool.Device)
	if err != nil || len(report.Rejected) != 1 || report.Rejected[0].Reason != RuleDuplicate {
		t.Errorf("another device takes the name: %+v, %v", report, err)
	}
	newer := deviceSpec(func(s *tool.Spec) { s.Version = "2" })
	if report, err = r.RegisterDynamic(t.Context(), []tool.Spec{newer}, tool.Device); err != nil || len(report.Accepted) != 1 {
		t.Errorf("the device itself may replace it: %+v, %v", report, err)
	}
	if spec, err := r.Spec("device.phone.ring", "2"); err != nil || spec.DeviceID != "phone-7" {
		t.Errorf("Spec = %+v, %v", spec, err)
	}
}

func TestUnregister(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, builtinSpec())
	other := mcpSpec(named("mcp.other.x"), func(s *tool.Spec) { s.ServerID, s.RequiredScopes = "other", nil })
	if _, err := r.RegisterDynamic(t.Context(), []tool.Spec{mcpSpec(), other}, tool.MCP); err != nil {
		t.Fatal(err)
	}
	if _, err := r.RegisterDynamic(t.Context(), []tool.Spec{deviceSpec()}, tool.Device); err != nil {
		t.Fatal(err)
	}
	everything := Filter{Tools: []string{"*"}, Scopes: []string{"workspace.write", "mcp.acme.use"}}
	if n := r.UnregisterServer("acme"); n != 1 {
		t.Errorf("%d tools of the server", n)
	}
	if n := r.UnregisterDevice("phone-7"); n != 1 {
		t.Errorf("%d tools of the device", n)
	}
	if n := r.UnregisterServer("") + r.UnregisterDevice(""); n != 0 {
		t.Errorf("%d tools of nobody", n)
	}
	if diff := cmp.Diff([]string{"mcp.other.x", "workspace.write_text"}, names(r.SpecsForSession(everything))); diff != "" {
		t.Errorf("left (-want +got)\n%s", diff)
	}
}

func TestForkSharesBuiltinsOnly(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, builtinSpec())
	one, two := r.Fork(), r.Fork()
	if _, err := one.RegisterDynamic(t.Context(), []tool.Spec{mcpSpec()}, tool.MCP); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]*Registry{"origin": r, "sibling": two, "fork of the fork": one.Fork()} {
		if _, err := other.Spec("mcp.acme.create_ticket", ""); !errors.Is(err, ErrToolNotFound) {
			t.Errorf("%s sees another session's server", name)
		}
		if _, err := other.Get("workspace.write_text", ""); err != nil {
			t.Errorf("%s lost a builtin: %v", name, err)
		}
	}
}

func TestBind(t *testing.T) {
	t.Parallel()
	unbound := newRegistry(t)
	bound, err := New(Options{Bind: func(spec tool.Spec) tool.Tool { return plainTool{spec} }})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Registry{unbound, bound} {
		if _, err := r.RegisterDynamic(t.Context(), []tool.Spec{mcpSpec(func(s *tool.Spec) { s.AllowParallel = true })}, tool.MCP); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := unbound.Get("mcp.acme.create_ticket", ""); !errors.Is(err, ErrToolNotFound) {
		t.Errorf("an implementation out of nowhere: %v", err)
	}
	if got, err := bound.Get("mcp.acme.create_ticket", ""); err != nil || got.Spec().AllowParallel {
		t.Errorf("Get = %v, %v", got, err)
	}
}

// denies is a policy that admits everything but one tool.
type denies string

func (d denies) Admits(spec tool.Spec) bool { return spec.Name != string(d) }

func TestSpecsForSession(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, builtinSpec(), controlSpec(), sandboxSpec(), fetchSpec(func(s *tool.Spec) { s.Hidden = true }))
	if _, err := r.RegisterDynamic(t.Context(), []tool.Spec{mcpSpec()}, tool.MCP); err != nil {
		t.Fatal(err)
	}
	scopes := []string{"workspace.write", "mcp.acme.use"}
	for _, tc := range []struct {
		name string
		f    Filter
		want []string
	}{
		{"nothing asked for", Filter{Scopes: scopes}, []string{}},
		{
			"everything",
			Filter{Tools: []string{"*"}, Scopes: scopes},
			[]string{"conversation.ask_user", "mcp.acme.create_ticket", "sandbox.run_command", "web.fetch", "workspace.write_text"},
		},
		{"agent", Filter{Tools: []string{"workspace.*", "web.fetch"}, Scopes: scopes}, []string{"web.fetch", "workspace.write_text"}},
		{"no scope", Filter{Tools: []string{"*"}}, []string{}},
		{"one scope", Filter{Tools: []string{"*"}, Scopes: []string{"mcp.acme.use"}}, []string{"mcp.acme.create_ticket"}},
		{"policy", Filter{Tools: []string{"workspace.*", "web.*"}, Scopes: scopes, Policy: denies("web.fetch")}, []string{"workspace.write_text"}},
		{
			"disabled",
			Filter{Tools: []string{"workspace.*", "mcp.*"}, Scopes: scopes, Environment: Environment{Disabled: []string{"mcp.acme.*"}}},
			[]string{"workspace.write_text"},
		},
		{"no sandbox here", Filter{
			Tools: []string{"workspace.*", "sandbox.*"}, Scopes: scopes,
			Environment: Environment{Unavailable: []tool.Target{tool.SandboxTarget}},
		}, []string{"workspace.write_text"}},
	} {
		if err := tc.f.Validate(); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if diff := cmp.Diff(tc.want, names(r.SpecsForSession(tc.f))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tc.name, diff)
		}
	}
	for _, f := range []Filter{{Tools: []string{"*", "work*"}}, {Environment: Environment{Disabled: []string{"Web.*"}}}} {
		if f.Validate() == nil {
			t.Errorf("filter %+v is valid", f)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, builtinSpec())
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			server := fmt.Sprintf("s%d", i)
			spec := mcpSpec(named("mcp."+server+".x"), func(s *tool.Spec) { s.ServerID, s.RequiredScopes = server, nil })
			for range 20 {
				if report, err := r.RegisterDynamic(t.Context(), []tool.Spec{spec}, tool.MCP); err != nil || len(report.Accepted) != 1 {
					t.Errorf("%+v, %v", report, err)
				}
				if _, err := r.Get("workspace.write_text", ""); err != nil {
					t.Error(err)
				}
				r.SpecsForSession(Filter{Tools: []string{"*"}})
				r.Fork()
				if n := r.UnregisterServer(server); n != 1 {
					t.Errorf("%d tools of %s", n, server)
				}
			}
		})
	}
	group.Wait()
}
