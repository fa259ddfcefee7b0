package subjects

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolbus/toolbus/tool"
)

// ErrToken says that a subject, or what a subject was to be built from, breaks
// the grammar: wrong class, wrong number of tokens, or a token outside
// [A-Za-z0-9_-]{1,64} or outside its closed set.
var ErrToken = errors.New("not a token of a toolbus subject")

// The wildcards of each class, as streams and subscriptions use them.
const (
	AllPropose = "toolbus.propose.*.*"
	AllExecute = "toolbus.execute.*.*"
	AllCommand = "toolbus.command.*.*.*"
	AllOutcome = "toolbus.outcome.*.*"
	AllEvent   = "toolbus.event.>"
	AllRPC     = "toolbus.rpc.>"
	AllGateway = "toolbus.gateway.>"
)

// noRun stands in an event subject where an event belongs to no run.
const noRun = "-"

// ValidToken reports whether s may stand in a subject as tenant, principal,
// actor or instance.
func ValidToken(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isAlnum(c) && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// ProposeSubject is what a propose subject says.
type ProposeSubject struct {
	Tenant string
	Run    tool.ID
}

// Propose spells toolbus.propose.<tenant>.<run>.
func Propose(tenant string, run tool.ID) (string, error) { return runSubject("propose", tenant, run) }

// ParsePropose is the inverse of [Propose].
func ParsePropose(subject string) (ProposeSubject, error) {
	tenant, run, err := parseRunSubject("propose", subject)
	return ProposeSubject{tenant, run}, err
}

// OutcomeSubject is what an outcome subject says.
type OutcomeSubject struct {
	Tenant string
	Run    tool.ID
}

// OutcomeFor spells toolbus.outcome.<tenant>.<run>, on which outcomes, pending
// notices and refusals of a run travel.
func OutcomeFor(tenant string, run tool.ID) (string, error) {
	return runSubject("outcome", tenant, run)
}

// ParseOutcome is the inverse of [OutcomeFor].
func ParseOutcome(subject string) (OutcomeSubject, error) {
	tenant, run, err := parseRunSubject("outcome", subject)
	return OutcomeSubject{tenant, run}, err
}

// ExecuteSubject is what an execute subject says.
type ExecuteSubject struct {
	Tenant string
	Target tool.Target
}

// Execute spells toolbus.execute.<tenant>.<target>.
func Execute(tenant string, target tool.Target) (string, error) {
	if !ValidToken(tenant) || !target.Valid() {
		return "", fmt.Errorf("execute subject: %w", ErrToken)
	}
	return "toolbus.execute." + tenant + "." + string(target), nil
}

// ExecuteOf gives the wildcard of one target, every tenant: the filter of that
// target's durable consumer.
func ExecuteOf(target tool.Target) string { return "toolbus.execute.*." + string(target) }

// ParseExecute is the inverse of [Execute].
func ParseExecute(subject string) (ExecuteSubject, error) {
	t, err := split(subject, "execute", 2)
	if err != nil {
		return ExecuteSubject{}, err
	}
	s := ExecuteSubject{Tenant: t[0], Target: tool.Target(t[1])}
	if !s.Target.Valid() {
		return ExecuteSubject{}, fmt.Errorf("execute subject: target: %w", ErrToken)
	}
	return s, nil
}

// CommandSubject is what a command subject says. The actor is who is recorded
// as having decided; NATS permissions bind it to the publisher.
type CommandSubject struct {
	Tenant string
	Kind   CommandKind
	Actor  string
}

// CommandFor spells toolbus.command.<tenant>.<kind>.<actor>.
func CommandFor(tenant string, kind CommandKind, actor string) (string, error) {
	if !ValidToken(tenant) || !kind.Valid() || !ValidToken(actor) {
		return "", fmt.Errorf("command subject: %w", ErrToken)
	}
	return "toolbus.command." + tenant + "." + string(kind) + "." + actor, nil
}

// ParseCommand is the inverse of [CommandFor].
func ParseCommand(subject string) (CommandSubject, error) {
	t, err := split(subject, "command", 3)
	if err != nil {
		return CommandSubject{}, err
	}
	s := CommandSubject{Tenant: t[0], Kind: CommandKind(t[1]), Actor: t[2]}
	if !s.Kind.Valid() {
		return CommandSubject{}, fmt.Errorf("command subject: kind: %w", ErrToken)
	}
	return s, nil
}

// EventSubject is what an event subject says. A zero Run means an event that
// belongs to no run.
type EventSubject struct {
	Tenant string
	Run    tool.ID
	Name   string
}

// EventFor spells toolbus.event.<tenant>.<run or ->.<event name>; the name keeps
// its dots.
func EventFor(tenant string, run tool.ID, name string) (string, error) {
	if !ValidToken(tenant) || !ValidEventName(name) {
		return "", fmt.Errorf("event subject: %w", ErrToken)
	}
	token := noRun
	if !run.IsZero() {
		token = run.String()
	}
	return "toolbus.event." + tenant + "." + token + "." + name, nil
}

// ParseEvent is the inverse of [EventFor].
func ParseEvent(subject string) (EventSubject, error) {
	rest, ok := strings.CutPrefix(subject, "toolbus.event.")
	parts := strings.SplitN(rest, ".", 3)
	if !ok || len(parts) != 3 || !ValidToken(parts[0]) || !ValidEventName(parts[2]) {
		return EventSubject{}, fmt.Errorf("event subject: %w", ErrToken)
	}
	s := EventSubject{Tenant: parts[0], Name: parts[2]}
	if parts[1] == noRun {
		return s, nil
	}
	run, err := tool.ParseID(parts[1])
	if err != nil || run.IsZero() {
		return EventSubject{}, fmt.Errorf("event subject: run: %w", ErrToken)
	}
	s.Run = run
	return s, nil
}

// RPCSubject is what a request subject says.
type RPCSubject struct {
	Service string
	Verb    string
	Tenant  string
}

// RPC spells toolbus.rpc.<service>.<verb>.<tenant>.
func RPC(service, verb, tenant string) (string, error) {
	if !validService(service) || !ValidToken(verb) || !ValidToken(tenant) {
		return "", fmt.Errorf("rpc subject: %w", ErrToken)
	}
	return "toolbus.rpc." + service + "." + verb + "." + tenant, nil
}

// RPCOf gives the wildcard of one verb, every tenant: what an endpoint listens on.
func RPCOf(service, verb string) string { return "toolbus.rpc." + service + "." + verb + ".*" }

// ParseRPC is the inverse of [RPC].
func ParseRPC(subject string) (RPCSubject, error) {
	t, err := split(subject, "rpc", 3)
	if err != nil {
		return RPCSubject{}, err
	}
	if !validService(t[0]) {
		return RPCSubject{}, fmt.Errorf("rpc subject: service: %w", ErrToken)
	}
	return RPCSubject{Service: t[0], Verb: t[1], Tenant: t[2]}, nil
}

// GatewaySubject is what a gateway subject says.
type GatewaySubject struct {
	Instance string
	Verb     string
}

// Gateway spells toolbus.gateway.<instance>.<verb>, by which one gateway
// instance is addressed. No account ever exports it.
func Gateway(instance, verb string) (string, error) {
	if !ValidToken(instance) || !ValidToken(verb) {
		return "", fmt.Errorf("gateway subject: %w", ErrToken)
	}
	return "toolbus.gateway." + instance + "." + verb, nil
}

// ParseGateway is the inverse of [Gateway].
func ParseGateway(subject string) (GatewaySubject, error) {
	t, err := split(subject, "gateway", 2)
	if err != nil {
		return GatewaySubject{}, err
	}
	return GatewaySubject{Instance: t[0], Verb: t[1]}, nil
}

func validService(s string) bool { return s == ServiceGatekeeper || s == ServiceMCPGateway }

func runSubject(class, tenant string, run tool.ID) (string, error) {
	if !ValidToken(tenant) || run.IsZero() {
		return "", fmt.Errorf("%s subject: %w", class, ErrToken)
	}
	return "toolbus." + class + "." + tenant + "." + run.String(), nil
}

func parseRunSubject(class, subject string) (string, tool.ID, error) {
	t, err := split(subject, class, 2)
	if err != nil {
		return "", tool.ID{}, err
	}
	run, err := tool.ParseID(t[1])
	if err != nil || run.IsZero() {
		return "", tool.ID{}, fmt.Errorf("%s subject: run: %w", class, ErrToken)
	}
	return t[0], run, nil
}

// split gives the n tokens after toolbus.<class>., each of them valid.
func split(subject, class string, n int) ([]string, error) {
	rest, ok := strings.CutPrefix(subject, "toolbus."+class+".")
	tokens := strings.SplitN(rest, ".", n+1)
	if !ok || len(tokens) != n {
		return nil, fmt.Errorf("%s subject: %w", class, ErrToken)
	}
	for _, token := range tokens {
		if !ValidToken(token) {
			return nil, fmt.Errorf("%s subject: %w", class, ErrToken)
		}
	}
	return tokens, nil
}
