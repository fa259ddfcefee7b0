package gates

import (
	"errors"
	"strings"
	"testing"

	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/tool"
)

// TestGate10_ReservedDomain: a builtin in the domain of MCP servers or devices
// is an error at start that names it, and no server can take the name of a
// builtin.
func TestGate10_ReservedDomain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mcp.acme.act", "device.phone.act", "mcp.act", "device.act"} {
		for _, source := range []tool.Source{tool.Builtin, tool.SandboxSrc} {
			t.Run(string(source)+" "+name, func(t *testing.T) {
				t.Parallel()
				r := emptyRegistry(t)
				err := r.RegisterBuiltin(declared{spec: declaration(source, func(s *tool.Spec) { s.Name = name })})
				var broken *registry.SpecError
				if !errors.As(err, &broken) || broken.Rule != registry.RuleReservedDomain || !strings.Contains(err.Error(), name) {
					t.Errorf("error %v", err)
				}
				if len(r.Builtins()) != 0 {
					t.Error("it was registered all the same")
				}
			})
		}
	}
	for _, domain := range []string{"mcp", "device"} {
		t.Run("a build declares "+domain, func(t *testing.T) {
			t.Parallel()
			_, err := registry.New(registry.Options{Limits: registry.Limits{ExtraDomains: []string{domain}}})
			if err == nil || !strings.Contains(err.Error(), domain) {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("a server reports the names of builtins", gate10Shadow)
}

func gate10Shadow(t *testing.T) {
	t.Parallel()
	r := emptyRegistry(t)
	own := declaration(tool.Builtin, func(s *tool.Spec) { s.Name = "workspace.write_text" })
	if err := r.RegisterBuiltin(declared{spec: own}); err != nil {
		t.Fatal(err)
	}
	remote := declaration(tool.MCP, nil)
	report, err := r.RegisterRemote(t.Context(), "workspace", []registry.Remote{
		{Name: "workspace.write_text", Spec: remote}, {Name: "../workspace.write_text", Spec: remote}, {Name: "write_text", Spec: remote},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Accepted) != 1 || report.Accepted[0] != "mcp.workspace.write_text" || len(report.Conflicts) != 1 {
		t.Errorf("report %+v", report)
	}
	if kept, err := r.Spec("workspace.write_text", ""); err != nil || kept.Source != tool.Builtin {
		t.Errorf("the builtin became %+v, %v", kept, err)
	}
}
