package tool

import (
	"context"
	"encoding/json"
)

// Spec declares a tool: the twelve fields of the engineering plan and the
// additions of the specification ("ToolSpec, completed"). Registration checks
// it; a Spec that was not registered promises nothing. It is a value: copy it
// freely, never change one that was registered.
type Spec struct {
	// Name is the registry name, domain.verb, at most 96 characters.
	Name string `json:"name"`
	// Version is an input of the idempotency key: another version is another call.
	Version string `json:"version"`
	// Description is what the model reads.
	Description string `json:"description"`
	// InputSchema is a JSON Schema (2020-12 for builtins) with an object at its root.
	InputSchema json.RawMessage `json:"input_schema"`
	// OutputSchema validates [Result.Structured]; empty for none.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`

	SideEffect  SideEffect  `json:"side_effect"`
	Risk        Risk        `json:"risk"`
	Idempotency Idempotency `json:"idempotency"`
	// RequiredScopes must all be held by the principal.
	RequiredScopes []string `json:"required_scopes,omitempty"`
	// TimeoutSeconds bounds one execution; the effective timeout is the least of
	// it and what is left of the call's and the run's deadline.
	TimeoutSeconds int `json:"timeout_seconds"`
	// MaximumOutputBytes bounds the canonical content; four times this is the
	// hard ceiling of what is read at all.
	MaximumOutputBytes int `json:"maximum_output_bytes"`
	// AllowParallel permits other calls of the same batch beside this one.
	AllowParallel bool `json:"allow_parallel"`

	Kind        Kind   `json:"kind"`
	TargetKind  Target `json:"target_kind"`
	OutputTrust Trust  `json:"output_trust"`
	Source      Source `json:"source"`
	// ServerID is set when Source is MCP.
	ServerID string `json:"server_id,omitempty"`
	// DeviceID is set when Source is Device.
	DeviceID   string `json:"device_id,omitempty"`
	Deprecated bool   `json:"deprecated,omitempty"`
	// Hidden tools are left out of the advertised list and stay callable by name
	// (model_visible false).
	Hidden bool `json:"hidden,omitempty"`
	// Deferred tools are advertised by a one-line entry and reached through tool.call.
	Deferred bool `json:"deferred,omitempty"`
}

// Tool is the central port: one implementation of one [Spec].
//
// Execute gets the canonical arguments, exactly the bytes that were validated,
// hashed and approved. Its context ends at the effective timeout, when the run
// is cancelled and when the lease is lost; a tool returns soon after. An error
// is a defect of the tool (reason code tool.internal, its text for operators
// only); what the outside world did wrong is a [Failure] in the Result.
// Implementations are safe for concurrent use.
type Tool interface {
	Spec() Spec
	Execute(ctx context.Context, arguments json.RawMessage, exec *Execution) (Result, error)
}

// Preparer is implemented by tools that can tell before the effect watermark
// that a call cannot run: resolution, egress, reconnection. It must have no
// effect on the outside world. An [*Unavailable] error ends the call as
// unavailable without a watermark; any other error is the tool's own defect.
type Preparer interface {
	Prepare(ctx context.Context, arguments json.RawMessage, exec *Execution) error
}

// Unavailable says that a call cannot run right now.
type Unavailable struct {
	// Code is a reason code of the unavailable family, such as
	// tool.server_unreachable or tool.device_offline.
	Code string
	// Detail is for operators and is never sent onward.
	Detail string
}

// Error gives code and detail, for logs.
func (u *Unavailable) Error() string { return u.Code + ": " + u.Detail }
