// Package archtest checks who imports whom.
//
// A linter sees the imports of one file. This package walks the import graph as
// the go command reports it, transitively, against one table of rules, and
// names the route of each violation.
package archtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// Package is a package and what it imports, by import path.
type Package struct {
	// Path is the import path.
	Path string
	// Standard marks the standard library.
	Standard bool
	// Imports are the imports of the package itself.
	Imports []string
	// TestImports are the imports of its tests, inside and outside the package.
	TestImports []string
}

// Graph holds packages by import path.
type Graph map[string]Package

// Load asks the go command for the packages that match the patterns, with
// everything they depend on. dir is inside the module.
func Load(ctx context.Context, dir string, patterns ...string) (Graph, error) {
	args := append([]string{"list", "-deps", "-json=ImportPath,Standard,Imports,TestImports,XTestImports"}, patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("archtest: go list: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	graph := Graph{}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var listed struct {
			ImportPath   string   `json:"ImportPath"`   //nolint:tagliatelle // the go command's names
			Standard     bool     `json:"Standard"`     //nolint:tagliatelle // as above
			Imports      []string `json:"Imports"`      //nolint:tagliatelle // as above
			TestImports  []string `json:"TestImports"`  //nolint:tagliatelle // as above
			XTestImports []string `json:"XTestImports"` //nolint:tagliatelle // as above
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			return graph, nil
		} else if err != nil {
			return nil, fmt.Errorf("archtest: go list: %w", err)
		}
		graph[listed.ImportPath] = Package{
			Path: listed.ImportPath, Standard: listed.Standard, Imports: listed.Imports,
			TestImports: append(listed.TestImports, listed.XTestImports...),
		}
	}
}

// Violation is an import that a rule forbids.
type Violation struct {
	// Rule is the name of the rule.
	Rule string
	// Route leads from the package that the rule is about to the one it must
	// not reach. Two elements are a direct import.
	Route []string
}

// String shows the route.
func (v Violation) String() string { return v.Rule + ": " + strings.Join(v.Route, " -> ") }

// Check returns every violation of the rule, ordered by package. It reports an
// error when the rule is about no package of the graph: a rule that watches
// nothing cannot fail.
func (r Rule) Check(graph Graph) ([]Violation, error) {
	var violations []Violation
	subjects := 0
	for _, path := range graph.paths() {
		if !matchAny(r.From, path, false) || matchAny(r.Except, path, false) {
			continue
		}
		subjects++
		for _, route := range r.routes(graph, graph[path]) {
			violations = append(violations, Violation{Rule: r.Name, Route: route})
		}
	}
	if subjects == 0 {
		return nil, fmt.Errorf("archtest: rule %s is about no package", r.Name)
	}
	return violations, nil
}

func (g Graph) paths() []string {
	paths := make([]string, 0, len(g))
	for path := range g {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// routes finds the shortest way to each forbidden package, breadth first.
// The standard library is a leaf: it imports nothing that a rule is about.
func (r Rule) routes(graph Graph, start Package) [][]string {
	var found [][]string
	seen := map[string]bool{start.Path: true}
	queue := [][]string{{start.Path}}
	for len(queue) > 0 {
		route := queue[0]
		queue = queue[1:]
		imports := graph[route[len(route)-1]].Imports
		if r.Tests && len(route) == 1 {
			imports = slices.Concat(imports, start.TestImports)
		}
		for _, path := range imports {
			if seen[path] {
				continue
			}
			seen[path] = true
			next := append(slices.Clone(route), path)
			standard := isStandard(graph, path)
			switch {
			case r.forbids(path, standard):
				found = append(found, next)
			case r.Transitive && !standard:
				queue = append(queue, next)
			}
		}
	}
	return found
}

func (r Rule) forbids(path string, standard bool) bool {
	return matchAny(r.Deny, path, standard) && !matchAny(r.Allow, path, standard)
}

// isStandard falls back on the shape of the path for the import of a test,
// which the go command lists by name only.
func isStandard(graph Graph, path string) bool {
	if p, ok := graph[path]; ok {
		return p.Standard
	}
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func matchAny(patterns []string, path string, standard bool) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, path, standard) })
}

// match knows "std", "all", a path, and a path with "/..." for it and all below.
// A path that begins with "./" is below the module.
func match(pattern, path string, standard bool) bool {
	switch pattern {
	case "all":
		return true
	case "std":
		return standard
	}
	if rest, inModule := strings.CutPrefix(pattern, "."); inModule {
		pattern = Module + rest
	}
	if base, below := strings.CutSuffix(pattern, "/..."); below {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return path == pattern
}
