package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// gatekeeper speaks the contract as the real one does, with answers made up and
// kept in memory. Hooks change its behaviour before it is started.
type gatekeeper struct {
	bus *bus.Bus
	// onProposal says what becomes of a proposal; nil lets every call succeed.
	onProposal func(tenant string, p *subjects.Proposal)
	// onCommand gives the code with which a command is refused, empty to apply it.
	onCommand func(actor string, c subjects.Command) string
	// onVerb may answer a verb in the place of the gatekeeper.
	onVerb func(verb, tenant string, data []byte) (handled bool, answer any, err error)

	mu        sync.Mutex
	sessions  map[string]subjects.SessionOpenResponse
	proposals []subjects.Proposal
	recorded  map[place][]json.RawMessage
	waiting   map[place][]json.RawMessage
	commands  map[string]subjects.CommandGetResponse
	handled   []string
	artifacts map[tool.ID][]byte
	asked     map[string]int
	running   sync.WaitGroup
}

type place struct {
	run  tool.ID
	step int
}

func newGatekeeper(b *bus.Bus) *gatekeeper {
	return &gatekeeper{
		bus: b, sessions: map[string]subjects.SessionOpenResponse{}, recorded: map[place][]json.RawMessage{},
		waiting: map[place][]json.RawMessage{}, commands: map[string]subjects.CommandGetResponse{},
		artifacts: map[tool.ID][]byte{}, asked: map[string]int{},
	}
}

// start works until ctx ends; wait waits for that.
func (g *gatekeeper) start(ctx context.Context) (wait func(), err error) {
	ready := make(chan struct{})
	failed := make(chan error, 3)
	work := func(stream, durable string, handle func(context.Context, subjects.Delivery) subjects.Verdict) {
		g.running.Go(func() {
			failed <- g.bus.Consume(ctx, bus.ConsumerConfig{Stream: stream, Durable: durable}, handle)
		})
	}
	work(subjects.StreamPropose, subjects.DurableProposals, g.proposal)
	work(subjects.StreamCommand, subjects.DurableCommands, g.command)
	g.running.Go(func() {
		failed <- g.bus.Serve(ctx, bus.RPCService{
			Name: "gatekeeper", Version: "0.0.1", Endpoints: g.endpoints(), Ready: func() { close(ready) },
		})
	})
	select {
	case <-ready:
		return g.running.Wait, nil
	case err := <-failed:
		return nil, errors.Join(errors.New("the gatekeeper ended"), err)
	}
}

func (g *gatekeeper) endpoints() []bus.Endpoint {
	verbs := map[string]func(data []byte) (any, error){
		subjects.VerbSessionOpen: g.sessionOpen, subjects.VerbOutcomeGet: g.outcomeGet,
		subjects.VerbCommandGet: g.commandGet, subjects.VerbArtifactsGet: g.artifactsGet,
	}
	for _, verb := range []string{
		subjects.VerbApprovalsList, subjects.VerbUncertainList, subjects.VerbInvocationsGet, subjects.VerbInvocationsList,
	} {
		verbs[verb] = func([]byte) (any, error) {
			return nil, &subjects.RPCError{Code: subjects.CodeNotFound, Message: "none"}
		}
	}
	var out []bus.Endpoint
	for verb, handle := range verbs {
		out = append(out, bus.Endpoint{
			Verb: verb, Subject: subjects.RPCOf(subjects.ServiceGatekeeper, verb),
			Handler: func(_ context.Context, tenant string, data []byte) (any, error) {
				g.mu.Lock()
				g.asked[verb]++
				g.mu.Unlock()
				if g.onVerb != nil {
					if handled, answer, err := g.onVerb(verb, tenant, data); handled {
						return answer, err
					}
				}
				return handle(data)
			},
		})
	}
	return out
}

func (g *gatekeeper) proposal(_ context.Context, d subjects.Delivery) subjects.Verdict {
	at, err := subjects.ParsePropose(d.Subject)
	if err != nil {
		return subjects.Park("subject")
	}
	p, err := subjects.ProposalDecoder{Run: at.Run}.Decode(d.Data)
	if err != nil {
		g.refuse(at.Tenant, &subjects.Proposal{RunID: at.Run}, subjects.RefusedMalformed)
		return subjects.Park("malformed")
	}
	g.mu.Lock()
	g.proposals = append(g.proposals, p)
	g.mu.Unlock()
	if g.onProposal != nil {
		g.onProposal(at.Tenant, &p)
		return subjects.Ack()
	}
	for _, c := range p.Calls {
		g.publish(at.Tenant, p.RunID, g.record(&p, succeeded(&p, c)))
	}
	return subjects.Ack()
}

func (g *gatekeeper) seen() []subjects.Proposal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.proposals)
}

func (g *gatekeeper) asks(verb string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked[verb]
}

// succeeded makes the outcome of a call that says its arguments back.
func succeeded(p *subjects.Proposal, c subjects.Call) *subjects.Outcome {
	return &subjects.Outcome{
		RunID: p.RunID, SessionID: p.SessionID, StepNumber: p.StepNumber, CallID: c.CallID, InvocationID: tool.NewID(),
		ToolName: c.Name, Status: tool.OutcomeSucceeded,
		Item: subjects.Item{
			Trust: tool.InternalTool, Content: []tool.Part{tool.Text(string(c.Arguments))}, Structured: json.RawMessage("null"),
		},
	}
}

func pending(p *subjects.Proposal, c subjects.Call, ref string) *subjects.Pending {
	return &subjects.Pending{
		RunID: p.RunID, SessionID: p.SessionID, StepNumber: p.StepNumber, CallID: c.CallID,
		Pending: subjects.PendingInfo{Kind: subjects.PendingApproval, Ref: ref, ExpiresAt: time.Unix(1, 0).UTC()},
	}
}

// record keeps what outcome_get tells; it gives the bytes.
func (g *gatekeeper) record(p *subjects.Proposal, o *subjects.Outcome) []byte {
	data := encode(o)
	g.mu.Lock()
	defer g.mu.Unlock()
	at := place{p.RunID, p.StepNumber}
	g.recorded[at] = append(g.recorded[at], data)
	return data
}

func (g *gatekeeper) refuse(tenant string, p *subjects.Proposal, code subjects.RefusalCode, ids ...string) {
	g.publish(tenant, p.RunID, encode(&subjects.Refusal{
		RunID: p.RunID, StepNumber: p.StepNumber, N: p.N,
		Refusal: subjects.RefusalInfo{Code: code, CallIDs: append([]string{}, ids...), Message: "said the gatekeeper"},
	}))
}

func (g *gatekeeper) publish(tenant string, run tool.ID, data []byte) {
	subject, err := subjects.OutcomeFor(tenant, run)
	if err == nil {
		err = g.bus.Notify(subject, data)
	}
	if err != nil {
		panic(err)
	}
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func (g *gatekeeper) command(_ context.Context, d subjects.Delivery) subjects.Verdict {
	at, err := subjects.ParseCommand(d.Subject)
	if err != nil {
		return subjects.Park("subject")
	}
	c, err := subjects.DecodeCommand(at.Kind, d.Data)
	if err != nil {
		return subjects.Park("malformed")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handled = append(g.handled, c.ID())
	if _, settled := g.commands[c.ID()]; settled {
		return subjects.Ack()
	}
	result := subjects.CommandGetResponse{
		CommandID: c.ID(), Kind: at.Kind, Result: subjects.CommandApplied, SettledAt: time.Unix(1, 0).UTC(),
	}
	if g.onCommand != nil {
		if code := g.onCommand(at.Actor, c); code != "" {
			result.Result, result.Code = subjects.CommandRefused, code
		}
	}
	g.commands[c.ID()] = result
	return subjects.Ack()
}

func (g *gatekeeper) sessionOpen(data []byte) (any, error) {
	var r subjects.SessionOpenRequest
	if err := subjects.Decode(data, &r); err != nil {
		return nil, err
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.sessions[r.RequestID]; !known {
		g.sessions[r.RequestID] = subjects.SessionOpenResponse{
			SessionID: tool.NewID(), ToolSchemaSHA256: hex.EncodeToString(make([]byte, 32)),
			Tools: []subjects.OfferedTool{{
				Name: "demo.echo", Alias: "demo_echo", Version: "1", InputSchema: json.RawMessage(`{"type":"object"}`),
				Kind: tool.Capability, SideEffect: tool.EffectNone, OutputTrust: tool.InternalTool,
			}},
			Servers: []subjects.ServerState{{ServerID: "acme", State: "connected"}},
		}
	}
	return g.sessions[r.RequestID], nil
}

func (g *gatekeeper) outcomeGet(data []byte) (any, error) {
	var r subjects.OutcomeGetRequest
	if err := subjects.Decode(data, &r); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	at := place{r.RunID, r.StepNumber}
	return subjects.OutcomeGetResponse{
		Outcomes: append([]json.RawMessage{}, g.recorded[at]...), Pending: append([]json.RawMessage{}, g.waiting[at]...),
		Open: []string{},
	}, nil
}

func (g *gatekeeper) commandGet(data []byte) (any, error) {
	var r subjects.CommandGetRequest
	if err := subjects.Decode(data, &r); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	result, settled := g.commands[r.CommandID]
	if !settled {
		return nil, &subjects.RPCError{Code: subjects.CodeNotFound, Message: "no such row"}
	}
	return result, nil
}

// chunk is small, so that a short artifact has several.
const chunk = 10

func (g *gatekeeper) artifactsGet(data []byte) (any, error) {
	var r subjects.ArtifactsGetRequest
	if err := subjects.Decode(data, &r); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	whole, known := g.artifacts[r.ID]
	if !known {
		return nil, &subjects.RPCError{Code: subjects.CodeNotFound, Message: "no such row"}
	}
	sum := sha256.Sum256(whole)
	end := min(int(r.Offset)+chunk, len(whole))
	return subjects.ArtifactsGetResponse{
		ID: r.ID, MediaType: "text/plain", Bytes: int64(len(whole)), SHA256: hex.EncodeToString(sum[:]), Offset: r.Offset,
		Data: bytes.Clone(whole[r.Offset:end]), Last: end == len(whole),
	}, nil
}
