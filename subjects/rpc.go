package subjects

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/toolbus/toolbus/tool"
)

// The services that answer requests.
const (
	ServiceGatekeeper = "gatekeeper"
	ServiceMCPGateway = "mcpgateway"
)

// The verbs of the gatekeeper.
const (
	VerbSessionOpen     = "session_open"
	VerbOutcomeGet      = "outcome_get"
	VerbCommandGet      = "command_get"
	VerbApprovalsList   = "approvals_list"
	VerbUncertainList   = "uncertain_list"
	VerbInvocationsGet  = "invocations_get"
	VerbInvocationsList = "invocations_list"
	VerbArtifactsGet    = "artifacts_get"
)

// The verbs of the MCP gateway.
const (
	VerbServersPut    = "servers_put"
	VerbServersList   = "servers_list"
	VerbServersRemove = "servers_remove"
	VerbServersCheck  = "servers_check"
)

// Stable codes of [RPCError] that any verb may answer.
const (
	CodeMalformed  = "malformed"
	CodeNotFound   = "not_found"
	CodeOverloaded = "overloaded"
	CodeInternal   = "internal"
	CodeTooLarge   = "too_large"
	CodeForbidden  = "forbidden"
)

// RPCError is how a verb fails: a stable code and a message of ours.
type RPCError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error gives code and message.
func (e *RPCError) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Is matches another RPCError of the same code, so that a code alone can be the
// target of errors.Is.
func (e *RPCError) Is(target error) bool {
	other, ok := target.(*RPCError) // one link: errors.Is walks the chain
	return ok && other.Code == e.Code
}

// AgentProfile is which agent a session runs, and which tools it is offered.
type AgentProfile struct {
	ID string `json:"id"`
	// Tools are patterns over registry names, such as workspace.* or mcp.acme.*.
	Tools []string `json:"tools"`
}

// SessionOpenRequest opens a session and pins its tools. Idempotent by RequestID.
type SessionOpenRequest struct {
	V         Version        `json:"v"`
	RequestID string         `json:"request_id"`
	Principal tool.Principal `json:"principal"`
	Scopes    []string       `json:"scopes"`
	Agent     AgentProfile   `json:"agent"`
	// Profile names the policy profile; empty means the configured default.
	Profile string `json:"profile,omitempty"`
	// RunDeadlineSeconds bounds every run of the session: 0 means the configured
	// default, otherwise it is from a millisecond to ten years.
	RunDeadlineSeconds float64 `json:"run_deadline_seconds,omitempty"`
	// Servers are the MCP servers to offer; absent means all of the tenant's.
	Servers []string `json:"servers,omitempty"`
	// MaxToolCalls bounds the calls of a run; 0 means no bound.
	MaxToolCalls int `json:"max_tool_calls,omitempty"`
}

// Check applies the grammar that decoding alone does not.
func (r *SessionOpenRequest) Check() error {
	switch {
	case !ValidCallID(r.RequestID):
		return &FieldError{"request_id", identRule}
	case !ValidToken(r.Principal.ID):
		return &FieldError{"principal.id", tokenRule}
	case !ValidToken(r.Agent.ID):
		return &FieldError{"agent.id", tokenRule}
	case r.Profile != "" && !ValidToken(r.Profile):
		return &FieldError{"profile", tokenRule}
	case r.RunDeadlineSeconds != 0 && (r.RunDeadlineSeconds < 0.001 || r.RunDeadlineSeconds > 315360000):
		return &FieldError{"run_deadline_seconds", "must be 0, or from 0.001 to 315360000"}
	case r.MaxToolCalls < 0 || r.MaxToolCalls > maxInt32:
		return &FieldError{"max_tool_calls", "must be from 0 to 2147483647"}
	}
	lists := []struct {
		field string
		items []string
		valid func(string) bool
	}{{"scopes", r.Scopes, ValidCallID}, {"agent.tools", r.Agent.Tools, validPattern}, {"servers", r.Servers, ValidToken}}
	for _, list := range lists {
		for i, item := range list.items {
			if !list.valid(item) {
				return &FieldError{list.field + "[" + strconv.Itoa(i) + "]", "must obey its grammar"}
			}
		}
	}
	return nil
}

func validPattern(s string) bool {
	if s == "" || len(s) > maxIdent {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && c != '.' && c != '_' && c != '*' && c != '-' {
			return false
		}
	}
	return true
}

// OfferedTool is one tool as a session advertises it.
type OfferedTool struct {
	Name        string          `json:"name"`
	Alias       string          `json:"alias"`
	Version     string          `json:"version"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Kind        tool.Kind       `json:"kind"`
	SideEffect  tool.SideEffect `json:"side_effect"`
	OutputTrust tool.Trust      `json:"output_trust"`
	Deferred    bool            `json:"deferred"`
	Deprecated  bool            `json:"deprecated"`
}

// ServerState says how an MCP server takes part in a session.
type ServerState struct {
	ServerID string `json:"server_id"`
	// State is connected, pinned or unavailable.
	State string `json:"state"`
	// ReasonCode is empty unless State is unavailable.
	ReasonCode string `json:"reason_code"`
}

// SessionOpenResponse is the pin of a session.
type SessionOpenResponse struct {
	V         Version `json:"v"`
	SessionID tool.ID `json:"session_id"`
	// Tools are sorted by name.
	Tools []OfferedTool `json:"tools"`
	// ToolSchemaSHA256 is lowercase hex over the canonical JSON of Tools.
	ToolSchemaSHA256 string        `json:"tool_schema_sha256"`
	Servers          []ServerState `json:"servers"`
}

// OutcomeGetRequest asks for what is known of one step.
type OutcomeGetRequest struct {
	V          Version `json:"v"`
	RunID      tool.ID `json:"run_id"`
	StepNumber int     `json:"step_number"`
}

// Check applies the bounds that decoding alone does not.
func (r *OutcomeGetRequest) Check() error {
	if r.StepNumber < 0 || r.StepNumber > maxInt32 {
		return &FieldError{"step_number", "must be from 0 to 2147483647"}
	}
	return nil
}

// OutcomeGetResponse carries what was, or would have been, published about a
// step: the recorded bytes, whole. A step that is unknown has nothing.
type OutcomeGetResponse struct {
	V Version `json:"v"`
	// Outcomes are outcome messages, one per call that ended.
	Outcomes []json.RawMessage `json:"outcomes"`
	// Pending are the notices of calls that wait.
	Pending []json.RawMessage `json:"pending"`
	// Open are the call ids that have neither.
	Open []string `json:"open"`
	// More says that the answer would have been too big and that the outcomes
	// of the calls in Open may have to be asked for singly (invocations_get).
	More bool `json:"more"`
}

// CommandGetRequest asks how a command was settled.
type CommandGetRequest struct {
	V         Version `json:"v"`
	CommandID string  `json:"command_id"`
}

// The results of a command.
const (
	CommandApplied = "applied"
	CommandRefused = "refused"
)

// CommandGetResponse is the recorded result of a command, the same facts that
// the event command.settled carries.
type CommandGetResponse struct {
	V         Version     `json:"v"`
	CommandID string      `json:"command_id"`
	Kind      CommandKind `json:"kind"`
	// Result is applied or refused.
	Result string `json:"result"`
	// Code says why it was refused, empty when it was applied.
	Code      string    `json:"code"`
	SettledAt time.Time `json:"settled_at"`
}

// Page is how every listing is asked for in portions.
type Page struct {
	// Limit bounds the portion; 0 means 50, the most is 500.
	Limit int `json:"limit,omitempty"`
	// Cursor is the next_cursor of the portion before.
	Cursor string `json:"cursor,omitempty"`
}

// Clamp gives the limit to use.
func (p Page) Clamp() int {
	if p.Limit <= 0 {
		return 50
	}
	return min(p.Limit, 500)
}

// ApprovalsListRequest lists approvals, newest last.
type ApprovalsListRequest struct {
	V Version `json:"v"`
	// State filters by state; empty means open ones.
	State string  `json:"state,omitempty"`
	RunID tool.ID `json:"run_id,omitzero"`
	Page  Page    `json:"page,omitzero"`
}

// ApprovalInfo is an approval as an approver sees it.
type ApprovalInfo struct {
	ApprovalID   tool.ID   `json:"approval_id"`
	InvocationID tool.ID   `json:"invocation_id"`
	SessionID    tool.ID   `json:"session_id"`
	RunID        tool.ID   `json:"run_id"`
	StepNumber   int       `json:"step_number"`
	CallID       string    `json:"call_id"`
	ToolName     string    `json:"tool_name"`
	ToolVersion  string    `json:"tool_version"`
	Principal    string    `json:"principal"`
	Risk         tool.Risk `json:"risk"`
	// MatrixRow is the row of the policy that requires the approval.
	MatrixRow string `json:"matrix_row"`
	// Arguments are the canonical bytes that the approval is bound to.
	Arguments     json.RawMessage       `json:"arguments"`
	ArgumentsHash string                `json:"arguments_hash"`
	ArgumentTrust map[string]tool.Trust `json:"argument_trust"`
	State         string                `json:"state"`
	RequestedAt   time.Time             `json:"requested_at"`
	ExpiresAt     time.Time             `json:"expires_at"`
	DecidedAt     *time.Time            `json:"decided_at"`
	DecidedBy     string                `json:"decided_by"`
	Comment       string                `json:"comment"`
}

// ApprovalsListResponse is one portion of a listing.
type ApprovalsListResponse struct {
	V          Version        `json:"v"`
	Approvals  []ApprovalInfo `json:"approvals"`
	NextCursor string         `json:"next_cursor"`
}

// UncertainListRequest lists uncertain calls.
type UncertainListRequest struct {
	V Version `json:"v"`
	// Reviewed includes those that somebody has reviewed.
	Reviewed bool `json:"reviewed,omitempty"`
	Page     Page `json:"page,omitzero"`
}

// UncertainInfo is an uncertain call and what is known of it.
type UncertainInfo struct {
	Invocation InvocationInfo `json:"invocation"`
	// LateResults counts results of stale attempts, evidence for the reviewer.
	LateResults int `json:"late_results"`
	// Verdict is empty until a review.
	Verdict    ReviewVerdict `json:"verdict"`
	ReviewedBy string        `json:"reviewed_by"`
	ReviewedAt *time.Time    `json:"reviewed_at"`
	Comment    string        `json:"comment"`
}

// UncertainListResponse is one portion of a listing.
type UncertainListResponse struct {
	V          Version         `json:"v"`
	Calls      []UncertainInfo `json:"calls"`
	NextCursor string          `json:"next_cursor"`
}

// InvocationsGetRequest asks for one call, by its invocation id or by where it
// stands in its run.
type InvocationsGetRequest struct {
	V            Version `json:"v"`
	InvocationID tool.ID `json:"invocation_id,omitzero"`
	RunID        tool.ID `json:"run_id,omitzero"`
	StepNumber   int     `json:"step_number,omitempty"`
	CallID       string  `json:"call_id,omitempty"`
}

// InvocationInfo is the row of a call without its payload.
type InvocationInfo struct {
	InvocationID     tool.ID            `json:"invocation_id"`
	SessionID        tool.ID            `json:"session_id"`
	RunID            tool.ID            `json:"run_id"`
	StepNumber       int                `json:"step_number"`
	CallID           string             `json:"call_id"`
	ToolName         string             `json:"tool_name"`
	ToolVersion      string             `json:"tool_version"`
	ToolSource       tool.Source        `json:"tool_source"`
	IdempotencyClass tool.Idempotency   `json:"idempotency_class"`
	IdempotencyKey   string             `json:"idempotency_key"`
	Status           tool.Status        `json:"status"`
	OutcomeStatus    tool.OutcomeStatus `json:"outcome_status"`
	ReasonCode       string             `json:"reason_code"`
	AttemptNumber    int                `json:"attempt_number"`
	ParallelGroup    *tool.ID           `json:"parallel_group"`
	SuspendedKind    string             `json:"suspended_kind"`
	CreatedAt        time.Time          `json:"created_at"`
	StartedAt        *time.Time         `json:"started_at"`
	EffectSentAt     *time.Time         `json:"effect_sent_at"`
	CompletedAt      *time.Time         `json:"completed_at"`
	DeadlineAt       *time.Time         `json:"deadline_at"`
}

// InvocationsGetResponse is one call, whole.
type InvocationsGetResponse struct {
	V          Version        `json:"v"`
	Invocation InvocationInfo `json:"invocation"`
	// Arguments are the canonical bytes; JSON null when there are none.
	Arguments json.RawMessage `json:"arguments"`
	// Content is the canonical content, intact up to the tool's own maximum.
	Content    []tool.Part     `json:"content"`
	Structured json.RawMessage `json:"structured"`
	// Item is what the outcome carries, as rendered; JSON null before the end.
	Item      json.RawMessage    `json:"item"`
	Artifacts []tool.ArtifactRef `json:"artifacts"`
	// Events is the history of the call, in order.
	Events []InvocationEvent `json:"events"`
}

// InvocationEvent is one event of a call as the table keeps it.
type InvocationEvent struct {
	Seq           int                `json:"seq"`
	Event         string             `json:"event"`
	OccurredAt    time.Time          `json:"occurred_at"`
	AttemptNumber int                `json:"attempt_number"`
	EffectSent    bool               `json:"effect_sent"`
	OutcomeStatus tool.OutcomeStatus `json:"outcome_status"`
	ReasonCode    string             `json:"reason_code"`
}

// InvocationsListRequest lists calls, newest first.
type InvocationsListRequest struct {
	V         Version     `json:"v"`
	SessionID tool.ID     `json:"session_id,omitzero"`
	RunID     tool.ID     `json:"run_id,omitzero"`
	Status    tool.Status `json:"status,omitempty"`
	ToolName  string      `json:"tool_name,omitempty"`
	Page      Page        `json:"page,omitzero"`
}

// InvocationsListResponse is one portion of a listing.
type InvocationsListResponse struct {
	V           Version          `json:"v"`
	Invocations []InvocationInfo `json:"invocations"`
	NextCursor  string           `json:"next_cursor"`
}

// ArtifactsGetRequest asks for one chunk of an artifact of the caller's tenant.
type ArtifactsGetRequest struct {
	V      Version `json:"v"`
	ID     tool.ID `json:"id"`
	Offset int64   `json:"offset"`
}

// ArtifactsGetResponse is one chunk, at most 256 KiB.
type ArtifactsGetResponse struct {
	V         Version `json:"v"`
	ID        tool.ID `json:"id"`
	MediaType string  `json:"media_type"`
	// Bytes and SHA256 are of the whole artifact.
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Offset int64  `json:"offset"`
	// Data is base64 in JSON.
	Data []byte `json:"data"`
	// Last says that nothing follows.
	Last bool `json:"last"`
}
