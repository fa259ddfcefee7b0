package archtest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/internal/archtest"
)

// graphOf makes a graph of lines "package: import import [test imports]".
// Paths that begin with a dot are in the module.
func graphOf(lines ...string) archtest.Graph {
	graph := archtest.Graph{}
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, ":")
		imports, tests, _ := strings.Cut(rest, "[")
		p := archtest.Package{
			Path: full(name), Standard: !strings.Contains(name, "."),
			Imports: fields(imports), TestImports: fields(strings.Trim(tests, "] ")),
		}
		graph[p.Path] = p
	}
	return graph
}

func full(name string) string {
	if rest, inModule := strings.CutPrefix(name, "./"); inModule {
		return archtest.Module + "/" + rest
	}
	return name
}

func fields(text string) []string {
	var paths []string
	for name := range strings.FieldsSeq(text) {
		paths = append(paths, full(name))
	}
	return paths
}

func TestCheck(t *testing.T) {
	t.Parallel()
	graph := graphOf(
		"./service: ./part fmt [./helper]",
		"./part: example.com/lib",
		"./part/deep: ./store",
		"./store: example.com/db",
		"./helper: ./store",
		"example.com/lib: example.com/db net/http",
		"example.com/db: net/http",
		"fmt: os",
		"net/http: os",
	)
	for name, tc := range map[string]struct {
		rule archtest.Rule
		want []string
	}{
		"direct import": {
			archtest.Rule{From: []string{"./store"}, Deny: []string{"example.com/..."}},
			[]string{"./store -> example.com/db"},
		},
		"a detour is not direct": {
			archtest.Rule{From: []string{"./service"}, Deny: []string{"example.com/db"}}, nil,
		},
		"a detour, transitively": {
			archtest.Rule{From: []string{"./service"}, Deny: []string{"example.com/db"}, Transitive: true},
			[]string{"./service -> ./part -> example.com/lib -> example.com/db"},
		},
		"the import of a test": {
			archtest.Rule{From: []string{"./service"}, Deny: []string{"./helper"}, Tests: true},
			[]string{"./service -> ./helper"},
		},
		"what a test reaches": {
			archtest.Rule{From: []string{"./service"}, Deny: []string{"./store"}, Tests: true, Transitive: true},
			[]string{"./service -> ./helper -> ./store"},
		},
		"tests left out": {
			archtest.Rule{From: []string{"./service"}, Deny: []string{"./helper", "./store"}, Transitive: true}, nil,
		},
		"allowed after all": {
			archtest.Rule{From: []string{"./service"}, Deny: []string{"all"}, Allow: []string{"std", "./part"}}, nil,
		},
		"the standard library is a leaf": {
			archtest.Rule{From: []string{"./service"}, Deny: []string{"os"}, Transitive: true}, nil,
		},
		"a folder and what is below": {
			archtest.Rule{From: []string{"./part/..."}, Deny: []string{"./store", "example.com/lib"}},
			[]string{"./part -> example.com/lib", "./part/deep -> ./store"},
		},
		"excepted": {
			archtest.Rule{From: []string{"./..."}, Except: []string{"./store", "./part/..."}, Deny: []string{"example.com/..."}}, nil,
		},
		"a name that only begins alike": {
			archtest.Rule{From: []string{"./service"}, Deny: []string{"./par/...", "./par"}}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			violations, err := tc.rule.Check(graph)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range violations {
				got = append(got, strings.ReplaceAll(strings.Join(v.Route, " -> "), archtest.Module, "."))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRuleAboutNothing(t *testing.T) {
	t.Parallel()
	rule := archtest.Rule{Name: "lost", From: []string{"./gone"}, Deny: []string{"all"}}
	if _, err := rule.Check(graphOf("./here:")); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("Check() = %v, want an error", err)
	}
}

// The table is read by people: every rule says why, and shows what it catches.
func TestTableIsComplete(t *testing.T) {
	t.Parallel()
	var names []string
	for _, rule := range archtest.Rules() {
		if rule.Why == "" || len(rule.Planted) == 0 {
			t.Errorf("rule %s lacks its reason or a planted fault", rule.Name)
		}
		names = append(names, rule.Name)
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(names))); len(unique) != len(names) {
		t.Errorf("a name is taken twice: %v", names)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module example.com/m\n\ngo 1.26\n",
		"a/a.go":         "package a\n\nimport _ \"example.com/m/b\"\n",
		"a/a_test.go":    "package a\n\nimport _ \"testing\"\n",
		"a/a_x_test.go":  "package a_test\n\nimport _ \"example.com/m/c\"\n",
		"b/b.go":         "package b\n\nimport _ \"strings\"\n",
		"c/c.go":         "package c\n",
		"broken/x_go.md": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	graph, err := archtest.Load(t.Context(), dir, "./...")
	if err != nil {
		t.Fatal(err)
	}
	want := archtest.Package{
		Path: "example.com/m/a", Imports: []string{"example.com/m/b"}, TestImports: []string{"testing", "example.com/m/c"},
	}
	if diff := cmp.Diff(want, graph["example.com/m/a"]); diff != "" {
		t.Errorf("package a (-want +got):\n%s", diff)
	}
	if !graph["strings"].Standard {
		t.Error("the dependency strings is not known as standard")
	}
	if _, err := archtest.Load(t.Context(), dir, "./none"); err == nil {
		t.Error("a pattern without packages was accepted")
	}
}
