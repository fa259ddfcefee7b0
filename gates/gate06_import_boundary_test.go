package gates

import (
	"maps"
	"strings"
	"testing"

	"github.com/toolbus/toolbus/internal/archtest"
)

// TestGate06_ImportBoundary walks the import graph of the whole module,
// transitively, against the table of rules. Each rule is also shown to catch
// the imports that it is there to catch, planted one by one into that graph.
func TestGate06_ImportBoundary(t *testing.T) {
	t.Parallel()
	graph, err := archtest.Load(t.Context(), "..", "./...")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range archtest.Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			t.Parallel()
			t.Run("holds", func(t *testing.T) {
				t.Parallel()
				violations, err := rule.Check(graph)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range violations {
					t.Errorf("%s (%s)", v, rule.Why)
				}
			})
			for _, fault := range rule.Planted {
				t.Run("catches "+fault[0]+" importing "+fault[1], func(t *testing.T) {
					t.Parallel()
					assertCaught(t, rule, graph, fault)
				})
			}
		})
	}
}

// assertCaught plants an import and expects the rule to name its route.
func assertCaught(t *testing.T, rule archtest.Rule, graph archtest.Graph, fault [2]string) {
	t.Helper()
	from, to := inModule(fault[0]), inModule(fault[1])
	importer, exists := graph[from]
	if !exists {
		t.Fatalf("there is no package %s to plant an import into", from)
	}
	planted := maps.Clone(graph)
	importer.Imports = append([]string{to}, importer.Imports...)
	planted[from] = importer

	violations, err := rule.Check(planted)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		if strings.HasSuffix(strings.Join(v.Route, " "), from+" "+to) {
			return
		}
	}
	t.Errorf("%s may import %s unseen", from, to)
}

func inModule(path string) string {
	if rest, ok := strings.CutPrefix(path, "./"); ok {
		return archtest.Module + "/" + rest
	}
	return path
}
