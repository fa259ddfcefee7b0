package gatekeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolbus/toolbus/announce"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// maximumAnswer leaves room for the frame of an answer below the bound of a
// message.
const maximumAnswer = subjects.MaxMessageBytes - 4096

func (s *Service) verbs() []Verb {
	all := map[string]func(context.Context, string, []byte) (any, error){
		subjects.VerbSessionOpen:     s.sessionOpen,
		subjects.VerbOutcomeGet:      s.outcomeGet,
		subjects.VerbCommandGet:      s.commandGet,
		subjects.VerbApprovalsList:   s.approvalsList,
		subjects.VerbUncertainList:   s.uncertainList,
		subjects.VerbInvocationsGet:  s.invocationsGet,
		subjects.VerbInvocationsList: s.invocationsList,
		subjects.VerbArtifactsGet:    s.artifactsGet,
	}
	out := make([]Verb, 0, len(all))
	for name, handle := range all {
		out = append(out, Verb{Name: name, Subject: subjects.RPCOf(subjects.ServiceGatekeeper, name), Handle: handle})
	}
	return out
}

func decode(data []byte, into any, check func() error) error {
	if err := subjects.Decode(data, into); err != nil {
		return err //nolint:wrapcheck // a field error goes to the caller as it is
	}
	if check == nil {
		return nil
	}
	return check()
}

// found gives not_found its code; a row of another tenant is no row.
func found(err error) error {
	if errors.Is(err, pipeline.ErrNotFound) {
		return &subjects.RPCError{Code: subjects.CodeNotFound, Message: "no such row"}
	}
	return err
}

func (s *Service) outcomeGet(ctx context.Context, tenant string, data []byte) (any, error) {
	var r subjects.OutcomeGetRequest
	if err := decode(data, &r, r.Check); err != nil {
		return nil, err
	}
	calls, err := s.o.Store.Step(ctx, tenant, r.RunID, r.StepNumber)
	if err != nil {
		return nil, fmt.Errorf("step: %w", err)
	}
	out := &subjects.OutcomeGetResponse{Outcomes: []json.RawMessage{}, Pending: []json.RawMessage{}, Open: []string{}}
	size := 0
	for i := range calls {
		c := &calls[i]
		raw, ended, err := answerOf(c)
		if err != nil {
			return nil, err
		}
		if size += len(raw); size > maximumAnswer {
			out.More, out.Open = true, append(out.Open, c.CallID)
			continue
		}
		switch {
		case raw == nil:
			out.Open = append(out.Open, c.CallID)
		case ended:
			out.Outcomes = append(out.Outcomes, raw)
		default:
			out.Pending = append(out.Pending, raw)
		}
	}
	return out, nil
}

// answerOf gives the outcome of a call that has ended, the notice of one that
// waits, or nothing.
func answerOf(c *pipeline.Existing) (raw json.RawMessage, ended bool, err error) {
	switch {
	case c.Terminal():
		raw, err = announce.Outcome(&c.Invocation)
		return raw, true, err //nolint:wrapcheck // says which row
	case c.Status == tool.WaitingForApproval || c.SuspendedKind != "":
		raw, _, err = announce.Pending(&c.Invocation, c.Approval)
		return raw, false, err //nolint:wrapcheck // says which row
	}
	return nil, false, nil
}

func (s *Service) commandGet(ctx context.Context, tenant string, data []byte) (any, error) {
	var r subjects.CommandGetRequest
	if err := decode(data, &r, nil); err != nil {
		return nil, err
	}
	c, err := s.o.Store.Command(ctx, tenant, r.CommandID)
	if err != nil {
		return nil, found(err)
	}
	return &subjects.CommandGetResponse{
		CommandID: r.CommandID, Kind: subjects.CommandKind(c.Kind), Result: c.Result, Code: c.Code, SettledAt: c.SettledAt.UTC(),
	}, nil
}

func cursor(p subjects.Page) (tool.ID, error) {
	if p.Cursor == "" {
		return tool.ID{}, nil
	}
	id, err := tool.ParseID(p.Cursor)
	if err != nil {
		return id, &subjects.FieldError{Field: "page.cursor", Rule: "must be the next_cursor of the portion before"}
	}
	return id, nil
}

// page reads one portion of the calls that filter describes, and gives the cursor
// of the next; empty when this is the last.
func (s *Service) page(ctx context.Context, tenant string, p subjects.Page, filter pipeline.InvocationFilter) ([]pipeline.Existing, string, error) {
	before, err := cursor(p)
	if err != nil {
		return nil, "", err
	}
	filter.Before, filter.Limit = before, p.Clamp()
	calls, err := s.o.Store.Invocations(ctx, tenant, filter)
	if err != nil || len(calls) < filter.Limit {
		return calls, "", err //nolint:wrapcheck // the caller says what was listed
	}
	return calls, calls[len(calls)-1].ID.String(), nil
}

func (s *Service) approvalsList(ctx context.Context, tenant string, data []byte) (any, error) {
	var r subjects.ApprovalsListRequest
	if err := decode(data, &r, nil); err != nil {
		return nil, err
	}
	calls, next, err := s.page(ctx, tenant, r.Page, pipeline.InvocationFilter{RunID: r.RunID, Waiting: true})
	if err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	out := &subjects.ApprovalsListResponse{Approvals: []subjects.ApprovalInfo{}, NextCursor: next}
	for i := range calls {
		info, err := s.approvalInfo(ctx, tenant, &calls[i])
		if err != nil {
			return nil, err
		}
		out.Approvals = append(out.Approvals, info)
	}
	return out, nil
}

// approvalInfo shows what will run, from the stored bytes and nothing else.
func (s *Service) approvalInfo(ctx context.Context, tenant string, c *pipeline.Existing) (subjects.ApprovalInfo, error) {
	session, err := s.sessions.Get(ctx, tenant, c.SessionID)
	if err != nil {
		return subjects.ApprovalInfo{}, fmt.Errorf("session: %w", err)
	}
	spec, _ := session.Catalog.Pin.Resolve(c.ToolName)
	a := c.Approval
	if c.ArgumentTrust == nil {
		c.ArgumentTrust = map[string]tool.Trust{}
	}
	return subjects.ApprovalInfo{
		ApprovalID: a.ID, InvocationID: c.ID, SessionID: c.SessionID, RunID: c.RunID, StepNumber: c.Step, CallID: c.CallID,
		ToolName: c.ToolName, ToolVersion: c.ToolVersion, Principal: session.Principal.ID, Risk: spec.Risk, MatrixRow: c.MatrixRow,
		Arguments: c.Arguments, ArgumentsHash: c.ArgumentsHash, ArgumentTrust: c.ArgumentTrust, State: "open",
		RequestedAt: a.RequestedAt.UTC(), ExpiresAt: a.ExpiresAt.UTC(),
	}, nil
}

func (s *Service) uncertainList(ctx context.Context, tenant string, data []byte) (any, error) {
	var r subjects.UncertainListRequest
	if err := decode(data, &r, nil); err != nil {
		return nil, err
	}
	calls, next, err := s.page(ctx, tenant, r.Page, pipeline.InvocationFilter{Status: tool.Uncertain})
	if err != nil {
		return nil, fmt.Errorf("uncertain calls: %w", err)
	}
	ids := make([]tool.ID, len(calls))
	for i := range calls {
		ids[i] = calls[i].ID
	}
	evidence, err := s.o.Store.Evidence(ctx, tenant, ids)
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	out := &subjects.UncertainListResponse{Calls: []subjects.UncertainInfo{}, NextCursor: next}
	for i := range calls {
		e := evidence[calls[i].ID]
		if e.Verdict != "" && !r.Reviewed {
			continue
		}
		out.Calls = append(out.Calls, subjects.UncertainInfo{
			Invocation: invocationInfo(&calls[i].Invocation), LateResults: e.LateResults, Verdict: subjects.ReviewVerdict(e.Verdict),
			ReviewedBy: e.ReviewedBy, ReviewedAt: optTime(e.ReviewedAt), Comment: e.Comment,
		})
	}
	return out, nil
}

func optTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func invocationInfo(i *pipeline.Invocation) subjects.InvocationInfo {
	info := subjects.InvocationInfo{
		InvocationID: i.ID, SessionID: i.SessionID, RunID: i.RunID, StepNumber: i.Step, CallID: i.CallID,
		ToolName: i.ToolName, ToolVersion: i.ToolVersion, ToolSource: i.Source, IdempotencyClass: i.Class, IdempotencyKey: i.Key,
		Status: i.Status, OutcomeStatus: i.Outcome, ReasonCode: i.Reason, AttemptNumber: i.Attempt, SuspendedKind: i.SuspendedKind,
		CreatedAt: i.CreatedAt.UTC(), StartedAt: optTime(i.StartedAt), EffectSentAt: optTime(i.EffectSentAt),
		CompletedAt: optTime(i.CompletedAt), DeadlineAt: optTime(i.DeadlineAt),
	}
	if !i.Group.IsZero() {
		info.ParallelGroup = &i.Group
	}
	return info
}

func (s *Service) invocationsList(ctx context.Context, tenant string, data []byte) (any, error) {
	var r subjects.InvocationsListRequest
	if err := decode(data, &r, nil); err != nil {
		return nil, err
	}
	calls, next, err := s.page(ctx, tenant, r.Page, pipeline.InvocationFilter{
		SessionID: r.SessionID, RunID: r.RunID, Status: r.Status, Tool: r.ToolName,
	})
	if err != nil {
		return nil, fmt.Errorf("invocations: %w", err)
	}
	out := &subjects.InvocationsListResponse{Invocations: []subjects.InvocationInfo{}, NextCursor: next}
	for i := range calls {
		out.Invocations = append(out.Invocations, invocationInfo(&calls[i].Invocation))
	}
	return out, nil
}

func (s *Service) invocationsGet(ctx context.Context, tenant string, data []byte) (any, error) {
	var r subjects.InvocationsGetRequest
	if err := decode(data, &r, nil); err != nil {
		return nil, err
	}
	c, err := s.lookUp(ctx, tenant, &r)
	if err != nil {
		return nil, found(err)
	}
	history, err := s.o.Store.History(ctx, tenant, c.ID)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return wholeCall(&c.Invocation, history)
}

func (s *Service) lookUp(ctx context.Context, tenant string, r *subjects.InvocationsGetRequest) (pipeline.Existing, error) {
	if !r.InvocationID.IsZero() {
		return s.o.Store.Invocation(ctx, tenant, r.InvocationID) //nolint:wrapcheck // the caller words it
	}
	calls, err := s.o.Store.Step(ctx, tenant, r.RunID, r.StepNumber)
	for i := range calls {
		if calls[i].CallID == r.CallID {
			return calls[i], nil
		}
	}
	return pipeline.Existing{}, errors.Join(err, pipeline.ErrNotFound)
}

func wholeCall(i *pipeline.Invocation, history []pipeline.EventRecord) (*subjects.InvocationsGetResponse, error) {
	out := &subjects.InvocationsGetResponse{
		Invocation: invocationInfo(i), Arguments: orNull(i.Arguments), Item: orNull(i.Item), Structured: orNull(nil),
		Content: []tool.Part{}, Artifacts: []tool.ArtifactRef{}, Events: make([]subjects.InvocationEvent, len(history)),
	}
	for n, e := range history {
		out.Events[n] = subjects.InvocationEvent{
			Seq: n + 1, Event: e.Name, OccurredAt: e.At.UTC(), AttemptNumber: e.Attempt, EffectSent: e.EffectSent,
			OutcomeStatus: e.Outcome, ReasonCode: e.Reason,
		}
	}
	if i.Artifact != nil {
		out.Artifacts = append(out.Artifacts, *i.Artifact)
	}
	// The canonical content stands in a column of its own only where the item
	// does not hold it.
	source := i.Result
	if len(source) == 0 {
		source = i.Item
	}
	if len(source) == 0 {
		return out, nil
	}
	var body struct {
		Content    []tool.Part     `json:"content"`
		Structured json.RawMessage `json:"structured"`
	}
	if err := json.Unmarshal(source, &body); err != nil {
		return nil, fmt.Errorf("stored result: %w", err)
	}
	if body.Content != nil {
		out.Content = body.Content
	}
	out.Structured = orNull(body.Structured)
	return out, nil
}

func orNull(raw []byte) json.RawMessage {
	if !json.Valid(raw) {
		return json.RawMessage("null")
	}
	return raw
}

func (s *Service) artifactsGet(ctx context.Context, tenant string, data []byte) (any, error) {
	var r subjects.ArtifactsGetRequest
	if err := decode(data, &r, nil); err != nil {
		return nil, err
	}
	ref, chunk, err := s.o.Store.Artifact(ctx, tenant, r.ID, r.Offset)
	if err != nil {
		return nil, found(err)
	}
	return &subjects.ArtifactsGetResponse{
		ID: ref.ID, MediaType: ref.MediaType, Bytes: ref.Bytes, SHA256: ref.SHA256,
		Offset: r.Offset, Data: chunk, Last: r.Offset+int64(len(chunk)) >= ref.Bytes,
	}, nil
}
