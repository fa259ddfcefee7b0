package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/toolbus/toolbus/tool"
)

// ErrToolNotFound says that no tool of that name and version is registered. The
// pipeline turns it into the denial policy.matrix.unknown_tool.
var ErrToolNotFound = errors.New("tool is not registered")

// Options configures a [Registry]. The zero value is usable.
type Options struct {
	Limits Limits
	// Bind gives the implementation of a tool that was registered at run time.
	// Without it the registry knows the declarations of such tools and cannot
	// give their implementation, which is all a service needs that decides and
	// does not execute. Safe for concurrent use.
	Bind func(spec tool.Spec) tool.Tool
}

// Registry holds the tools that exist. Tools of the build enter through
// [Registry.RegisterBuiltin] at start, tools of MCP servers and devices through
// [Registry.RegisterDynamic] and [Registry.RegisterRemote]; there is no fourth
// way in. Safe for concurrent use.
type Registry struct {
	options Options

	mu      sync.RWMutex
	entries map[string]entry
}

// entry is one registered tool; impl is nil for a declaration that is not bound.
type entry struct {
	spec tool.Spec
	impl tool.Tool
}

// New makes an empty registry. It fails when the options declare a domain that
// no build may declare.
func New(o Options) (*Registry, error) {
	if err := checkExtraDomains(o.Limits.ExtraDomains); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	o.Limits.ExtraDomains = slices.Clone(o.Limits.ExtraDomains)
	return &Registry{options: o, entries: make(map[string]entry)}, nil
}

// Fork makes a registry with the builtins of r and nothing else, for the tools
// of one session: a server id means something within one tenant only.
func (r *Registry) Fork() *Registry {
	fork := &Registry{options: r.options, entries: make(map[string]entry)}
	r.mu.RLock()
	defer r.mu.RUnlock()
	for name, e := range r.entries {
		if ofBuild(e.spec.Source) {
			fork.entries[name] = e
		}
	}
	return fork
}

// ofBuild reports whether tools of that source are compiled in.
func ofBuild(source tool.Source) bool { return source == tool.Builtin || source == tool.SandboxSrc }

// RegisterBuiltin registers a tool of the build, of source builtin or sandbox.
// An error is a [*SpecError] that names the tool and the rule, and a reason not
// to start: a builtin in the domain of MCP servers or devices, an invalid
// declaration, a name registered twice.
func (r *Registry) RegisterBuiltin(t tool.Tool) error {
	spec := Harden(t.Spec())
	if err := ValidateSpec(spec, r.options.Limits); err != nil {
		return err
	}
	if !ofBuild(spec.Source) {
		return &SpecError{Name: spec.Name, Field: "source", Rule: RuleSourceRefused}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.entries[spec.Name]; taken {
		return &SpecError{Name: spec.Name, Field: "name", Rule: RuleDuplicate}
	}
	r.entries[spec.Name] = entry{spec: spec, impl: seal(t, spec)}
	return nil
}

// Get gives the registered tool of that name; an empty version takes the one
// there is. Its Spec is the hardened declaration. [ErrToolNotFound] is returned
// for an unknown name, another version, and a declaration without implementation.
func (r *Registry) Get(name, version string) (tool.Tool, error) {
	e, ok := r.lookup(name, version)
	if !ok || e.impl == nil {
		return nil, notFound(name)
	}
	return e.impl, nil
}

// Spec gives the declaration of a registered tool, bound or not; otherwise it is
// [Registry.Get].
func (r *Registry) Spec(name, version string) (tool.Spec, error) {
	e, ok := r.lookup(name, version)
	if !ok {
		return tool.Spec{}, notFound(name)
	}
	return e.spec, nil
}

func (r *Registry) lookup(name, version string) (entry, bool) {
	r.mu.RLock()
	e, ok := r.entries[name]
	r.mu.RUnlock()
	return e, ok && (version == "" || version == e.spec.Version)
}

// notFound repeats a name only where it is one: anything else is a model's text.
func notFound(name string) error {
	if !ValidName(name) {
		return fmt.Errorf("malformed name: %w", ErrToolNotFound)
	}
	return fmt.Errorf("%s: %w", name, ErrToolNotFound)
}

// Builtins lists the tools of the build, sorted by name.
func (r *Registry) Builtins() []tool.Spec {
	return r.specs(func(s tool.Spec) bool { return ofBuild(s.Source) })
}

// specs lists the declarations that keep accepts, sorted by name.
func (r *Registry) specs(keep func(tool.Spec) bool) []tool.Spec {
	r.mu.RLock()
	all := slices.Collect(maps.Values(r.entries))
	r.mu.RUnlock()
	var kept []tool.Spec
	for _, e := range all {
		if keep(e.spec) {
			kept = append(kept, e.spec)
		}
	}
	slices.SortFunc(kept, func(a, b tool.Spec) int { return strings.Compare(a.Name, b.Name) })
	return kept
}

// sealed is an implementation whose declaration is the one that was registered,
// whatever the implementation says later.
type sealed struct {
	tool.Tool
	spec tool.Spec
}

// Spec gives the registered declaration.
func (s *sealed) Spec() tool.Spec { return s.spec }

// sealedPreparer is sealed for a tool that also prepares.
type sealedPreparer struct {
	sealed
	tool.Preparer
}

func seal(t tool.Tool, spec tool.Spec) tool.Tool {
	if p, ok := t.(tool.Preparer); ok {
		return &sealedPreparer{sealed: sealed{Tool: t, spec: spec}, Preparer: p}
	}
	return &sealed{Tool: t, spec: spec}
}
