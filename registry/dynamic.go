package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolbus/toolbus/tool"
)

// ErrSourceRefused says that tools of that source come with the build and are
// never registered at run time (specification, "Skills, and the line").
var ErrSourceRefused = errors.New("source does not register at run time")

// Report says what became of every declaration of one registration. All lists
// are sorted by name.
type Report struct {
	// Accepted are registry names.
	Accepted  []string
	Rejected  []Rejection
	Conflicts []Conflict
}

// Rejection is one declaration that was refused; the rest of its catalog stands.
type Rejection struct {
	// Name is the registry name as declared, data of a remote party where it is
	// malformed.
	Name string
	// Reason is the broken rule.
	Reason Rule
	// Detail is for operators and holds no remote text.
	Detail string
}

// Conflict is a registry name that more than one declaration of a catalog
// claimed. None of them is registered, so that the outcome does not depend on
// their order.
type Conflict struct {
	Name string
	// RemoteNames are the names the server reported, sorted, verbatim and
	// therefore external text; empty where the declarations came without.
	RemoteNames []string
}

// Remote is one tool of an MCP server's catalog on its way in.
type Remote struct {
	// Name is what the server reported, verbatim. It is ignored for a synthetic
	// tool.
	Name string
	// Synthetic marks the read_resource tool, which the gateway adds and no
	// server lists.
	Synthetic bool
	// Spec is the declaration without name, source and server id, which
	// [Registry.RegisterRemote] sets.
	Spec tool.Spec
}

// RegisterRemote registers the catalog of one MCP server: it names every tool
// with [MCPName], finds the names that two of them share, and registers the
// others as [Registry.RegisterDynamic] does. The name read_resource belongs to
// the synthetic tool: a listed tool that normalizes to it is a conflict.
func (r *Registry) RegisterRemote(ctx context.Context, serverID string, catalog []Remote) (Report, error) {
	if !ValidServerID(serverID) {
		return Report{}, &SpecError{Field: "server_id", Rule: RuleServerID}
	}
	claims := make([]claim, 0, len(catalog))
	for _, remote := range catalog {
		spec := remote.Spec
		spec.Source, spec.ServerID = tool.MCP, serverID
		c := claim{remote: remote.Name, listed: !remote.Synthetic}
		spec.Name = MCPName(serverID, remote.Name)
		if remote.Synthetic {
			spec.Name = MCPName(serverID, ReadResource)
		}
		c.reserved = c.listed && strings.HasSuffix(spec.Name, "."+ReadResource)
		c.spec = spec
		claims = append(claims, c)
	}
	return r.register(ctx, claims)
}

// RegisterDynamic registers declarations of source mcp or device, each on its
// own: a refused one does not affect the rest. A tool that its own server or
// device registered before is replaced, one of somebody else is not. Names that
// occur twice in specs are conflicts. The error is [ErrSourceRefused] for any
// other source, or that of the context; then nothing was registered.
func (r *Registry) RegisterDynamic(ctx context.Context, specs []tool.Spec, source tool.Source) (Report, error) {
	if source != tool.MCP && source != tool.Device {
		return Report{}, fmt.Errorf("register dynamic: %w", ErrSourceRefused)
	}
	claims := make([]claim, 0, len(specs))
	for _, spec := range specs {
		claims = append(claims, claim{spec: spec, foreign: spec.Source != source})
	}
	return r.register(ctx, claims)
}

// claim is one declaration that wants a name.
type claim struct {
	spec   tool.Spec
	remote string
	// listed says that remote is a name a server reported.
	listed bool
	// reserved says that the name belongs to a synthetic tool.
	reserved bool
	// foreign says that the declaration is of another source than its registration.
	foreign bool
}

// register validates outside the lock, a schema takes its time, and publishes
// the whole catalog at once.
func (r *Registry) register(ctx context.Context, claims []claim) (Report, error) {
	report, unique := split(claims)
	accepted := make([]tool.Spec, 0, len(unique))
	for _, c := range unique {
		if err := ctx.Err(); err != nil {
			return Report{}, fmt.Errorf("register dynamic: %w", err)
		}
		spec := Harden(c.spec)
		if broken := r.vet(spec, c.foreign); broken != nil {
			report.reject(broken)
			continue
		}
		accepted = append(accepted, spec)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, spec := range accepted {
		if held, taken := r.entries[spec.Name]; taken && !sameOwner(held.spec, spec) {
			report.reject(&SpecError{Name: spec.Name, Field: "name", Rule: RuleDuplicate})
			continue
		}
		e := entry{spec: spec}
		if r.options.Bind != nil {
			e.impl = seal(r.options.Bind(spec), spec)
		}
		r.entries[spec.Name] = e
		report.Accepted = append(report.Accepted, spec.Name)
	}
	report.sort()
	return report, nil
}

func (r *Registry) vet(spec tool.Spec, foreign bool) *SpecError {
	if foreign || ofBuild(spec.Source) {
		return &SpecError{Name: spec.Name, Field: "source", Rule: RuleSourceRefused}
	}
	var broken *SpecError
	if errors.As(ValidateSpec(spec, r.options.Limits), &broken) {
		return broken
	}
	return nil
}

func sameOwner(a, b tool.Spec) bool {
	return a.Source == b.Source && a.ServerID == b.ServerID && a.DeviceID == b.DeviceID
}

// split separates the names that several declarations claim from the others.
func split(claims []claim) (Report, []claim) {
	byName := make(map[string][]claim, len(claims))
	for _, c := range claims {
		byName[c.spec.Name] = append(byName[c.spec.Name], c)
	}
	var report Report
	var unique []claim
	for name, same := range byName {
		if len(same) == 1 && !same[0].reserved {
			unique = append(unique, same[0])
			continue
		}
		conflict := Conflict{Name: name}
		for _, c := range same {
			if c.listed {
				conflict.RemoteNames = append(conflict.RemoteNames, c.remote)
			}
		}
		slices.Sort(conflict.RemoteNames)
		report.Conflicts = append(report.Conflicts, conflict)
	}
	return report, unique
}

func (r *Report) reject(broken *SpecError) {
	detail := broken.Field
	if broken.Detail != "" {
		detail += ": " + broken.Detail
	}
	r.Rejected = append(r.Rejected, Rejection{Name: broken.Name, Reason: broken.Rule, Detail: detail})
}

func (r *Report) sort() {
	slices.Sort(r.Accepted)
	slices.SortFunc(r.Rejected, func(a, b Rejection) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Conflicts, func(a, b Conflict) int { return strings.Compare(a.Name, b.Name) })
}

// UnregisterServer forgets every tool of an MCP server and says how many there
// were. Pins are not affected.
func (r *Registry) UnregisterServer(serverID string) int {
	return r.unregister(func(s tool.Spec) bool { return s.Source == tool.MCP && s.ServerID == serverID })
}

// UnregisterDevice forgets every tool of a device and says how many there were.
// Pins are not affected.
func (r *Registry) UnregisterDevice(deviceID string) int {
	return r.unregister(func(s tool.Spec) bool { return s.Source == tool.Device && s.DeviceID == deviceID })
}

func (r *Registry) unregister(gone func(tool.Spec) bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for name, e := range r.entries {
		if gone(e.spec) {
			delete(r.entries, name)
			n++
		}
	}
	return n
}
