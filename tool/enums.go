package tool

import (
	"fmt"
	"slices"
)

// Trust labels where a piece of content came from. The zero value is not a
// label; a missing label is read as [ExternalUntrusted] where the contract says
// so, never silently as something higher.
type Trust string

// The trust labels, lowest first.
const (
	ExternalUntrusted    Trust = "external_untrusted"
	InternalTool         Trust = "internal_tool"
	User                 Trust = "user"
	TrustedConfiguration Trust = "trusted_configuration"
	Platform             Trust = "platform"
)

var trustOrder = []Trust{ExternalUntrusted, InternalTool, User, TrustedConfiguration, Platform}

// Rank gives the position of t in the order of trust, 0 for the lowest label,
// and -1 for a value outside the closed set.
func (t Trust) Rank() int { return slices.Index(trustOrder, t) }

// Valid reports whether t is one of the five labels.
func (t Trust) Valid() bool { return t.Rank() >= 0 }

// AtLeast reports whether t is floor or higher. A value outside the set is
// below everything.
func (t Trust) AtLeast(floor Trust) bool { return t.Valid() && t.Rank() >= floor.Rank() }

// MinTrust gives the lower of two labels: where several sources contributed to
// a value, the lowest label stands (Decision 9).
func MinTrust(a, b Trust) Trust {
	if a.Rank() < b.Rank() {
		return a
	}
	return b
}

// SideEffect says what a call may change in the world.
type SideEffect string

// The side-effect classes.
const (
	EffectNone    SideEffect = "none"
	WorkspaceRead SideEffect = "workspace_read"
	// WorkspaceWrite changes files of the run's own workspace.
	WorkspaceWrite SideEffect = "workspace_write"
	NetworkRead    SideEffect = "network_read"
	ExternalRead   SideEffect = "external_read"
	ExternalWrite  SideEffect = "external_write"
	CodeExecution  SideEffect = "code_execution"
	// PlatformWrite changes durable tenant state: skills, memory, schedules.
	PlatformWrite SideEffect = "platform_write"
)

var sideEffects = []SideEffect{
	EffectNone, WorkspaceRead, WorkspaceWrite, NetworkRead,
	ExternalRead, ExternalWrite, CodeExecution, PlatformWrite,
}

// Valid reports whether s is in the closed set.
func (s SideEffect) Valid() bool { return slices.Contains(sideEffects, s) }

// ReadOnly reports whether calls of this class cannot depend on one another's
// effects, the ground on which a batch may run in parallel.
func (s SideEffect) ReadOnly() bool {
	switch s {
	case EffectNone, WorkspaceRead, NetworkRead, ExternalRead:
		return true
	case WorkspaceWrite, ExternalWrite, CodeExecution, PlatformWrite:
		return false
	}
	return false
}

// Risk grades the harm of a wrong call.
type Risk string

// The risk levels, lowest first.
const (
	RiskLow      Risk = "low"
	RiskMedium   Risk = "medium"
	RiskHigh     Risk = "high"
	RiskCritical Risk = "critical"
)

var risks = []Risk{RiskLow, RiskMedium, RiskHigh, RiskCritical}

// Rank gives the position of r, 0 for low, -1 outside the set.
func (r Risk) Rank() int { return slices.Index(risks, r) }

// Valid reports whether r is in the closed set.
func (r Risk) Valid() bool { return r.Rank() >= 0 }

// Idempotency says what a second execution of the same call would do; recovery
// decides by it (specification, "The effect watermark").
type Idempotency string

// The idempotency classes.
const (
	ReadOnly                Idempotency = "read_only"
	Idempotent              Idempotency = "idempotent"
	ConditionallyIdempotent Idempotency = "conditionally_idempotent"
	NonIdempotent           Idempotency = "non_idempotent"
)

var idempotencies = []Idempotency{ReadOnly, Idempotent, ConditionallyIdempotent, NonIdempotent}

// Valid reports whether i is in the closed set.
func (i Idempotency) Valid() bool { return slices.Contains(idempotencies, i) }

// Kind separates tools that act on the world from those that act on the run.
type Kind string

// The kinds.
const (
	Capability Kind = "capability"
	Control    Kind = "control"
)

// Valid reports whether k is in the closed set.
func (k Kind) Valid() bool { return k == Capability || k == Control }

// Source says who supplied a tool.
type Source string

// The sources.
const (
	Builtin    Source = "builtin"
	MCP        Source = "mcp"
	Device     Source = "device"
	SandboxSrc Source = "sandbox"
)

var sources = []Source{Builtin, MCP, Device, SandboxSrc}

// Valid reports whether s is in the closed set.
func (s Source) Valid() bool { return slices.Contains(sources, s) }

// ForcesUntrusted reports whether the output of this source is labelled
// [ExternalUntrusted] whatever its declaration says.
func (s Source) ForcesUntrusted() bool { return s != Builtin }

// Target says where a call is executed.
type Target string

// The targets. An execute subject ends in one of them.
const (
	InProcess           Target = "in_process"
	SandboxTarget       Target = "sandbox"
	MCPTarget           Target = "mcp"
	DeviceTarget        Target = "device"
	WebProvider         Target = "web_provider"
	BrowserProvider     Target = "browser_provider"
	UnsubscribeEndpoint Target = "unsubscribe_endpoint"
)

// Targets lists every target.
func Targets() []Target {
	return []Target{InProcess, SandboxTarget, MCPTarget, DeviceTarget, WebProvider, BrowserProvider, UnsubscribeEndpoint}
}

// Valid reports whether t is in the closed set.
func (t Target) Valid() bool { return slices.Contains(Targets(), t) }

// Status is the life of an invocation row.
type Status string

// The statuses; the first four are not terminal.
const (
	Proposed           Status = "proposed"
	WaitingForApproval Status = "waiting_for_approval"
	Authorized         Status = "authorized"
	Running            Status = "running"
	Succeeded          Status = "succeeded"
	Failed             Status = "failed"
	Denied             Status = "denied"
	Uncertain          Status = "uncertain"
)

// Statuses lists every status.
func Statuses() []Status {
	return []Status{Proposed, WaitingForApproval, Authorized, Running, Succeeded, Failed, Denied, Uncertain}
}

// Terminal reports whether a row with this status never changes it again.
func (s Status) Terminal() bool {
	switch s {
	case Succeeded, Failed, Denied, Uncertain:
		return true
	case Proposed, WaitingForApproval, Authorized, Running:
		return false
	}
	return false
}

// OutcomeStatus is what the pipeline concludes and the model reads.
type OutcomeStatus string

// The outcome statuses.
const (
	OutcomeSucceeded   OutcomeStatus = "succeeded"
	OutcomeFailed      OutcomeStatus = "failed"
	OutcomeDenied      OutcomeStatus = "denied"
	OutcomeUnavailable OutcomeStatus = "unavailable"
	OutcomeUncertain   OutcomeStatus = "uncertain"
)

// OutcomeStatuses lists every outcome status.
func OutcomeStatuses() []OutcomeStatus {
	return []OutcomeStatus{OutcomeSucceeded, OutcomeFailed, OutcomeDenied, OutcomeUnavailable, OutcomeUncertain}
}

// Valid reports whether s is in the closed set.
func (s OutcomeStatus) Valid() bool { return slices.Contains(OutcomeStatuses(), s) }

// RowStatus gives the invocation status that carries outcome s: the mapping of
// the specification, read from right to left. Unavailable has no status of its
// own, it is a failed row.
func (s OutcomeStatus) RowStatus() Status {
	switch s {
	case OutcomeSucceeded:
		return Succeeded
	case OutcomeDenied:
		return Denied
	case OutcomeUncertain:
		return Uncertain
	case OutcomeFailed, OutcomeUnavailable:
		return Failed
	}
	return Failed
}

// FailureKind classifies a failure that a tool itself reports.
type FailureKind string

// The failure kinds.
const (
	FailInvalidArguments FailureKind = "invalid_arguments"
	FailNotFound         FailureKind = "not_found"
	FailPermission       FailureKind = "permission"
	FailTimeout          FailureKind = "timeout"
	FailOutputTooLarge   FailureKind = "output_too_large"
	FailOutputInvalid    FailureKind = "output_invalid"
	FailUpstreamError    FailureKind = "upstream_error"
	FailTransport        FailureKind = "transport"
	FailInternal         FailureKind = "internal"
)

var failureKinds = []FailureKind{
	FailInvalidArguments, FailNotFound, FailPermission, FailTimeout, FailOutputTooLarge,
	FailOutputInvalid, FailUpstreamError, FailTransport, FailInternal,
}

// Valid reports whether k is in the closed set.
func (k FailureKind) Valid() bool { return slices.Contains(failureKinds, k) }

// Code gives the reason code of a failure of this kind that names no detail.
func (k FailureKind) Code() string { return "tool." + string(k) }

// EnumError says that a field holds a word outside its closed set.
type EnumError struct {
	// Field is the name of the field as the sender spells it.
	Field string
	// Value is what stood there.
	Value string
}

// Error names the field and the rejected word.
func (e *EnumError) Error() string {
	return fmt.Sprintf("%s: %q is not in the closed set", e.Field, e.Value)
}
