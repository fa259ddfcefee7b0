package archtest

import "slices"

// Module is the module whose packages the rules are about.
const Module = "github.com/toolbus/toolbus"

// Rule says what some packages must not import. Patterns are as for the go
// command: "./store/..." is a folder of this module, "all" every package, "std"
// the standard library.
type Rule struct {
	// Name identifies the rule.
	Name string
	// Why is the reason, for whoever broke it.
	Why string
	// From and Except select the packages that the rule is about.
	From, Except []string
	// Deny and Allow select what they must not import; Allow wins.
	Deny, Allow []string
	// Transitive extends the rule to what the imports import in turn.
	Transitive bool
	// Tests extends it to the direct imports of tests.
	Tests bool
	// Planted are imports that break the rule, each of a package by another: the
	// proof that the rule catches something.
	Planted [][2]string
}

const (
	nats       = "github.com/nats-io/..."
	pgx        = "github.com/jackc/pgx/..."
	mcpSDK     = "github.com/modelcontextprotocol/..."
	cel        = "github.com/google/cel-go/..."
	jsonschema = "github.com/santhosh-tekuri/jsonschema/..."
	prometheus = "github.com/prometheus/..."
)

// outside are the folders that look at the program from outside: they may use
// what they find there, and nothing of the program may use them.
var outside = []string{"./gates/...", "./test/...", "./bench/...", "./deploy/..."}

// services are the folders of services.
var services = []string{"gatekeeper", "executor", "recovery", "telemetry"}

// Rules is the table: every import rule of the house.
func Rules() []Rule {
	return slices.Concat(leafRules(), ownerRules(), serviceRules(), rootRules())
}

// leafRules are about the packages that everything else rests on.
func leafRules() []Rule {
	return []Rule{
		{
			Name: "domain-is-standard-library-only", Why: "the domain is read and tested without anything else",
			From: []string{"./tool"}, Deny: []string{"all"}, Allow: []string{"std", "./tool"}, Transitive: true,
			Planted: [][2]string{{"./tool", "./canonical"}, {"./tool", "github.com/google/uuid"}},
		},
		{
			Name: "domain-does-no-io", Why: "the domain knows no storage, no transport, no process",
			From: []string{"./tool"},
			Deny: []string{"database/sql/...", "net/...", "os/..."}, Allow: []string{"net/url", "net/netip"},
			Planted: [][2]string{{"./tool", "net/http"}, {"./tool", "os"}, {"./tool", "database/sql"}},
		},
		{
			Name: "parts-know-no-engine", Why: "decisions are made and tested without a server",
			From: []string{
				"./registry/...", "./policy/...", "./argschema/...", "./canonical/...", "./outcome/...", "./subjects", "./pipeline/...",
			},
			Deny:       []string{nats, pgx, "database/sql", "./store/...", "./bus/...", "./client/...", "./services/...", "./app/...", "./cmd/..."},
			Transitive: true,
			Planted:    [][2]string{{"./pipeline", "./store"}, {"./policy", pgxRoot}, {"./subjects", natsRoot}},
		},
		{
			Name: "plumbing-knows-no-tool-call", Why: "plumbing serves any program",
			From: []string{"./internal/...", "./config/...", "./migrations/..."}, Deny: []string{"./..."},
			Allow: []string{"./internal/...", "./config/...", "./migrations/..."}, Transitive: true, Tests: true,
			Planted: [][2]string{{"./config", "./tool"}, {"./internal/supervise", "./store"}, {"./migrations", "./tool"}},
		},
		{
			Name: "builtins-know-the-port-only", Why: "a builtin has no way around the pipeline",
			From: []string{"./builtin/..."}, Deny: []string{"./...", nats, pgx},
			Allow: []string{"./builtin/...", "./tool", "./internal/..."}, Transitive: true,
			Planted: [][2]string{{"./builtin", "./registry"}, {"./builtin", "./pipeline"}, {"./builtin", "./store"}},
		},
	}
}

// The roots of the vendors' modules, for planted faults.
const (
	natsRoot = "github.com/nats-io/nats.go"
	pgxRoot  = "github.com/jackc/pgx/v5"
	mcpRoot  = "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ownerRules give each library to the packages that may name it.
func ownerRules() []Rule {
	owns := func(name, why, library, root, planted string, owners ...string) Rule {
		return Rule{
			Name: name, Why: why, From: []string{"./..."}, Except: append(owners, outside...), Deny: []string{library},
			Planted: [][2]string{{planted, root}},
		}
	}
	rules := []Rule{
		owns("only-store-speaks-sql", "every statement stands in one package", "github.com/jackc/...", pgxRoot, "./app", "./store/..."),
		owns("only-bus-speaks-nats", "acknowledgement and retry are decided in one place", nats, natsRoot, "./app",
			"./bus/...", "./client/...", "./subjects/topology/..."),
		owns("only-mcpconn-speaks-mcp", "the SDK can be replaced in one package", mcpSDK, mcpRoot, "./app",
			"./services/mcpgateway/mcpconn/..."),
		owns("only-policy-speaks-cel", "conditions are evaluated in one package", cel, "github.com/google/cel-go/cel", "./services/gatekeeper",
			"./policy/..."),
		owns("only-argschema-validates", "one package decides what a schema means", jsonschema, "github.com/santhosh-tekuri/jsonschema/v6", "./registry",
			"./argschema/..."),
		owns("only-observe-measures", "names and labels of metrics stand in one package", prometheus, "github.com/prometheus/client_golang/prometheus", "./services/telemetry",
			"./internal/observe/..."),
		owns("only-cmd-parses-flags", "flags belong to the process", "github.com/alecthomas/...", "github.com/alecthomas/kong", "./app",
			"./cmd/..."),
	}
	// A test may ask the validator directly whether a schema is one.
	for i := range rules {
		rules[i].Tests = rules[i].Name != "only-argschema-validates"
	}
	// An indirect import counts too: no service but the gateway is built with the SDK.
	return append(rules, Rule{
		Name: "mcp-stays-behind-the-gateway", Why: "an SDK type must not reach the runtime by a detour",
		From: []string{"./..."}, Except: append([]string{"./services/mcpgateway/...", "./app/...", "./cmd/..."}, outside...),
		Deny: []string{mcpSDK}, Transitive: true,
		Planted: [][2]string{{"./services/executor", mcpRoot}, {"./tool", mcpRoot}},
	})
}

// serviceRules keep the services apart and away from the adapters.
func serviceRules() []Rule {
	rules := []Rule{
		{
			Name: "services-know-no-adapter", Why: "a service declares the few methods it needs, and app plugs them",
			From: []string{"./services/..."}, Deny: []string{"./store/...", "./bus/...", "./client/...", "./app/...", "./cmd/...", nats, pgx},
			Transitive: true, Tests: true,
			Planted: [][2]string{{"./services/gatekeeper", "./store"}, {"./services/executor", "./bus"}, {"./services/telemetry", natsRoot}},
		},
		{
			Name: "store-serves-the-domain", Why: "the two adapters meet in app",
			From: []string{"./store/..."}, Deny: []string{"./bus/...", "./services/...", "./app/...", "./client/...", nats}, Transitive: true, Tests: true,
			Planted: [][2]string{{"./store", "./bus"}, {"./store", "./services/recovery"}},
		},
		{
			Name: "bus-serves-the-domain", Why: "the two adapters meet in app",
			From: []string{"./bus/..."}, Deny: []string{"./store/...", "./services/...", "./app/...", "./client/...", pgx}, Transitive: true, Tests: true,
			Planted: [][2]string{{"./bus", "./store"}, {"./bus", "./services/gatekeeper"}},
		},
		{
			Name: "client-speaks-the-protocol-only", Why: "a runtime embeds the client, not the bus's insides",
			From: []string{"./client/..."}, Deny: []string{"./store/...", "./services/...", "./app/...", "./pipeline/...", pgx}, Transitive: true,
			Planted: [][2]string{{"./client", "./store"}, {"./client", "./pipeline"}},
		},
	}
	for i, service := range services {
		own := "./services/" + service
		other := "./services/" + services[(i+1)%len(services)]
		rules = append(rules, Rule{
			Name: service + "-stands-alone", Why: "services meet on the bus and in the store, never in Go",
			From: []string{own + "/..."}, Deny: []string{"./services/..."}, Allow: []string{own + "/..."}, Transitive: true, Tests: true,
			Planted: [][2]string{{own, other}},
		})
	}
	return rules
}

// rootRules are about the program as a whole.
func rootRules() []Rule {
	return []Rule{
		{
			Name: "app-is-the-root", Why: "only a command, an example of one and tests start the program",
			From: []string{"./..."}, Except: append([]string{"./app/...", "./cmd/...", "./examples/..."}, outside...), Deny: []string{"./app/...", "./cmd/..."}, Tests: true,
			Planted: [][2]string{{"./client", "./app"}, {"./services/recovery", "./app"}},
		},
		{
			Name: "nothing-uses-the-outside", Why: "gates, tests and benchmarks look at the program, not the other way round",
			From: []string{"./..."}, Except: outside, Deny: outside, Tests: true,
			Planted: [][2]string{{"./app", "./bench"}, {"./store", "./gates"}},
		},
		{
			Name: "tests-stay-out-of-the-binary", Why: "what ships holds no test code",
			From: []string{"./cmd/toolbus"}, Deny: []string{"testing/...", "./internal/localpg/testcluster/...", "pgregory.net/...", "go.uber.org/goleak/..."},
			Transitive: true,
			Planted:    [][2]string{{"./app", "testing"}, {"./app", "./internal/localpg/testcluster"}},
		},
	}
}
