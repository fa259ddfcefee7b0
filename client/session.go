package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// SessionOptions say for whom a session is, and which tools it offers.
type SessionOptions struct {
	// RequestID makes the opening idempotent: the same id gives the session that
	// it opened, as it was pinned then. Empty draws one.
	RequestID string
	// Principal is on whose authority the runs act; its id is a token.
	Principal tool.Principal
	// Scopes are what the principal may do.
	Scopes []string
	// Agent names the agent and the tools it may use, as patterns over registry
	// names: a name, a prefix ending in .*, or *.
	Agent subjects.AgentProfile
	// Profile names the policy profile; empty means the configured default.
	Profile string
	// RunDeadline bounds every run; 0 means the configured default.
	RunDeadline time.Duration
	// Servers are the MCP servers to offer; empty means all of the tenant's.
	Servers []string
	// MaxToolCalls bounds the calls of each run; 0 means no bound.
	MaxToolCalls int
}

func (o SessionOptions) request() *subjects.SessionOpenRequest {
	r := &subjects.SessionOpenRequest{
		RequestID: o.RequestID, Principal: o.Principal, Scopes: o.Scopes, Agent: o.Agent, Profile: o.Profile,
		RunDeadlineSeconds: o.RunDeadline.Seconds(), Servers: o.Servers, MaxToolCalls: o.MaxToolCalls,
	}
	if r.RequestID == "" {
		r.RequestID = tool.NewID().String()
	}
	// The wire tells an empty list from none at all and refuses the latter.
	if r.Scopes == nil {
		r.Scopes = []string{}
	}
	if r.Agent.Tools == nil {
		r.Agent.Tools = []string{}
	}
	return r
}

// Session is an open session and the tools that were pinned for it. Safe for
// concurrent use; it holds nothing that has to be released.
type Session struct {
	client  *Client
	id      tool.ID
	tools   []subjects.OfferedTool
	sha     string
	servers []subjects.ServerState
}

// OpenSession opens a session and pins its tools. The gatekeeper waits for slow
// MCP servers up to a minute and reports the others as unavailable. The call is
// repeated with the same request id while nobody answers, so that one session
// comes of it. A request outside the grammar is a [*subjects.FieldError]; what
// the gatekeeper refuses is a [*subjects.RPCError].
func (c *Client) OpenSession(ctx context.Context, options SessionOptions) (*Session, error) {
	request := options.request()
	if err := request.Check(); err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	var opened subjects.SessionOpenResponse
	err := c.request(ctx, subjects.ServiceGatekeeper, subjects.VerbSessionOpen, request, &opened, openTimeout)
	if err != nil {
		return nil, err
	}
	return &Session{
		client: c, id: opened.SessionID, tools: opened.Tools, sha: opened.ToolSchemaSHA256, servers: opened.Servers,
	}, nil
}

// AttachSession gives a session that was opened before, by another process
// maybe. Nothing is asked: a session that does not exist shows when something is
// proposed in it, and the advertised tools are not known here. To have them,
// open the session again with its request id.
func (c *Client) AttachSession(id tool.ID) *Session { return &Session{client: c, id: id} }

// ID identifies the session.
func (s *Session) ID() tool.ID { return s.id }

// Tools are the tools that the session advertises, sorted by name; nil after
// [Client.AttachSession]. The slice is the caller's own, the schemas in it are
// shared and must not be changed.
func (s *Session) Tools() []subjects.OfferedTool { return slices.Clone(s.tools) }

// Tool finds an advertised tool by its registry name or its alias.
func (s *Session) Tool(nameOrAlias string) (subjects.OfferedTool, bool) {
	i := slices.IndexFunc(s.tools, func(t subjects.OfferedTool) bool { return t.Name == nameOrAlias || t.Alias == nameOrAlias })
	if i < 0 {
		return subjects.OfferedTool{}, false
	}
	return s.tools[i], true
}

// ToolSchemaSHA256 is lowercase hex over the canonical JSON of the tools; empty
// after [Client.AttachSession]. Equal hashes mean equal tools.
func (s *Session) ToolSchemaSHA256() string { return s.sha }

// Servers says how each MCP server takes part; nil after [Client.AttachSession]
// and empty when an opening was repeated.
func (s *Session) Servers() []subjects.ServerState { return slices.Clone(s.servers) }

// NewRun begins a run under a new id.
func (s *Session) NewRun() *Run { return s.Run(tool.NewID()) }

// Run gives the run with an id, which belongs to the session of its first
// proposal. Nothing is sent. The caller closes the run.
func (s *Session) Run(id tool.ID) *Run {
	return &Run{session: s, id: id, steps: map[int]*OpenStep{}}
}

// Close closes the session and waits until that is settled: what is proposed
// afterwards is refused as session_closed. See [Client.CloseSession].
func (s *Session) Close(ctx context.Context) (Settled, error) {
	return s.client.CloseSession(ctx, s.id)
}

// Call makes one call in a run of its own and waits for its outcome, which is
// not an error whatever its status. Arguments are encoded as JSON and must give
// an object; nil stands for the empty one. Nothing is claimed about where they
// come from, so policy treats them as untrusted; [Session.CallAs] claims more.
// When ctx ends first, the call goes on without the caller.
func (s *Session) Call(ctx context.Context, name string, arguments any) (subjects.Outcome, error) {
	return s.CallAs(ctx, tool.ExternalUntrusted, name, arguments)
}

// CallAs is [Session.Call] with a claim: the decision to call, and every
// argument, is of the given trust. A runtime may claim at most [tool.User]
// unless its tenant is configured otherwise; more is refused as malformed.
func (s *Session) CallAs(ctx context.Context, trust tool.Trust, name string, arguments any) (subjects.Outcome, error) {
	call, err := singleCall(trust, name, arguments)
	if err != nil {
		return subjects.Outcome{}, err
	}
	run := s.NewRun()
	defer run.Close()
	step, err := run.Propose(ctx, Step{OriginTrust: trust, Calls: []subjects.Call{call}})
	if err != nil {
		return subjects.Outcome{}, err
	}
	outcomes, err := step.Wait(ctx)
	if err != nil {
		return subjects.Outcome{}, err
	}
	run.leave(ctx)
	return outcomes[0], nil
}

func singleCall(trust tool.Trust, name string, arguments any) (subjects.Call, error) {
	call := subjects.Call{CallID: "call", Name: name}
	if arguments == nil {
		return call, nil
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		return call, fmt.Errorf("call: arguments: %w", err)
	}
	call.Arguments = raw
	if trust == tool.ExternalUntrusted {
		return call, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return call, fmt.Errorf("call: arguments: %w", err)
	}
	call.ArgumentTrust = make(map[string]tool.Trust, len(members))
	for member := range members {
		call.ArgumentTrust[member] = trust
	}
	return call, nil
}
