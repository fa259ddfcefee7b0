package gatekeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// sessionOpen pins the tools of a new session. It is idempotent by request id:
// the same id gives the session that it opened, as it was pinned then.
func (s *Service) sessionOpen(ctx context.Context, tenant string, data []byte) (any, error) {
	var r subjects.SessionOpenRequest
	if err := decode(data, &r, r.Check); err != nil {
		return nil, err
	}
	if r.Profile == "" {
		r.Profile = s.o.DefaultProfile
	}
	if s.o.Profiles[r.Profile] == nil {
		return nil, &subjects.FieldError{Field: "profile", Rule: "must be a configured policy profile"}
	}
	id, err := s.o.Store.SessionByRequest(ctx, tenant, r.RequestID)
	if errors.Is(err, pipeline.ErrNotFound) {
		return s.openNew(ctx, tenant, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	return s.openedBefore(ctx, tenant, id)
}

func (s *Service) openNew(ctx context.Context, tenant string, r *subjects.SessionOpenRequest) (any, error) {
	reg, servers, err := s.o.Catalog.ToolsFor(ctx, tenant, r.Servers)
	if err != nil {
		return nil, fmt.Errorf("catalog: %w", err)
	}
	filter := registry.Filter{Tools: r.Agent.Tools, Scopes: r.Scopes, Policy: s.o.Profiles[r.Profile], Environment: s.o.Environment}
	filter.Environment.Disabled = s.o.Disabled
	if err := filter.Validate(); err != nil {
		return nil, &subjects.FieldError{Field: "agent.tools", Rule: "must be tool names, prefixes ending in .*, or *"}
	}
	pin, err := registry.NewPin(reg.SpecsForSession(filter))
	if err != nil {
		return nil, fmt.Errorf("pin: %w", err)
	}
	deadline := time.Duration(r.RunDeadlineSeconds * float64(time.Second))
	if deadline <= 0 {
		deadline = s.o.RunDeadline
	}
	n := &pipeline.Session{
		TenantID: tenant, ID: tool.NewID(), RequestID: r.RequestID, Principal: r.Principal, Scopes: r.Scopes,
		AgentID: r.Agent.ID, AgentTools: r.Agent.Tools, Profile: r.Profile, RunDeadline: deadline,
		MaxToolCalls: r.MaxToolCalls, Catalog: pipeline.NewCatalog(pin),
	}
	id, err := s.o.Store.OpenSession(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	if id != n.ID { // somebody else with the same request id was first
		return s.openedBefore(ctx, tenant, id)
	}
	return opened(id, pin, servers), nil
}

func (s *Service) openedBefore(ctx context.Context, tenant string, id tool.ID) (any, error) {
	session, err := s.sessions.Get(ctx, tenant, id)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	return opened(id, session.Catalog.Pin, nil), nil
}

func opened(id tool.ID, pin *registry.Pin, servers []subjects.ServerState) *subjects.SessionOpenResponse {
	advertised := pin.Advertised()
	r := &subjects.SessionOpenResponse{
		SessionID: id, ToolSchemaSHA256: pin.ToolSchemaSHA256(),
		Tools: make([]subjects.OfferedTool, len(advertised)), Servers: servers,
	}
	for i, t := range advertised {
		r.Tools[i] = subjects.OfferedTool(t)
	}
	if r.Servers == nil {
		r.Servers = []subjects.ServerState{}
	}
	return r
}
