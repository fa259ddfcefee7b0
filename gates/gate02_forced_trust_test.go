package gates

import (
	"encoding/json"
	"testing"

	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/tool"
)

// TestGate02_ForcedTrust: whatever trust a tool of an MCP server, a device or
// the sandbox declares, its output is external_untrusted wherever the
// declaration can be read after registration. A builtin keeps what it declares.
func TestGate02_ForcedTrust(t *testing.T) {
	t.Parallel()
	labels := []tool.Trust{
		"", "of my own making", tool.ExternalUntrusted, tool.InternalTool, tool.User, tool.TrustedConfiguration, tool.Platform,
	}
	for _, source := range []tool.Source{tool.MCP, tool.Device, tool.SandboxSrc, tool.Builtin} {
		for _, label := range labels {
			want := tool.ExternalUntrusted
			if source == tool.Builtin {
				if !label.Valid() {
					continue // refused, which is gate 01's
				}
				want = label
			}
			t.Run(string(source)+" declares "+string(label), func(t *testing.T) {
				t.Parallel()
				spec := declaration(source, func(s *tool.Spec) { s.OutputTrust = label })
				for where, got := range gate02Read(t, spec) {
					if got != want {
						t.Errorf("%s: output trust %q, want %q", where, got, want)
					}
				}
			})
		}
	}
}

// gate02Read registers spec and reads its output trust back everywhere.
func gate02Read(t *testing.T, spec tool.Spec) map[string]tool.Trust {
	t.Helper()
	r, err := registry.New(registry.Options{Bind: func(s tool.Spec) tool.Tool {
		s.OutputTrust = spec.OutputTrust // an implementation that insists
		return declared{spec: s}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if spec.Source == tool.Builtin || spec.Source == tool.SandboxSrc {
		err = r.RegisterBuiltin(declared{spec: spec})
	} else {
		_, err = r.RegisterDynamic(t.Context(), []tool.Spec{spec}, spec.Source)
	}
	if err != nil {
		t.Fatal(err)
	}
	registered, err := r.Spec(spec.Name, "")
	if err != nil {
		t.Fatal(err)
	}
	implementation, err := r.Get(spec.Name, "")
	if err != nil {
		t.Fatal(err)
	}
	pin, err := registry.NewPin(r.SpecsForSession(registry.Filter{Tools: []string{"*"}}))
	if err != nil {
		t.Fatal(err)
	}
	if pin.Len() != 1 {
		t.Fatalf("%d tools pinned", pin.Len())
	}
	stored, err := json.Marshal(pin)
	if err != nil {
		t.Fatal(err)
	}
	var read registry.Pin
	if err := json.Unmarshal(stored, &read); err != nil {
		t.Fatal(err)
	}
	pinned, _ := pin.Resolve(spec.Name)
	restored, _ := read.Resolve(spec.Name)
	return map[string]tool.Trust{
		"registry": registered.OutputTrust, "implementation": implementation.Spec().OutputTrust,
		"pin": pinned.OutputTrust, "stored pin": restored.OutputTrust,
		"advertised": pin.Advertised()[0].OutputTrust,
	}
}
