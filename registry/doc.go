// Package registry decides which tools exist and which of them a session sees.
//
// It owns four things of the specification ("The registry, and the namespace
// that makes MCP possible at all", "Resolution", "Advertisement is pinned"):
//
//   - the namespace: the grammar of names, the partition of domains between the
//     build, MCP servers and devices, the deterministic name of a remote tool
//     ([NormalizeRemoteName], [MCPName]) and the alias that model providers
//     accept ([Alias]);
//   - registration: [ValidateSpec] is every rule a declaration must keep,
//     [Harden] is every value that is forced rather than believed, and
//     [Registry] admits nothing that has not passed both;
//   - the four filters of a session ([Registry.SpecsForSession]);
//   - the [Pin], the immutable set a session resolves its calls against for the
//     whole of its life.
//
// The build registers its tools once, into one [Registry]. Server ids are unique
// per tenant only, so remote tools are registered into a [Registry.Fork] that
// serves one session and shares nothing but the builtins with any other.
package registry
