package e2e

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/test/systemtest"
	"github.com/toolbus/toolbus/tool"
)

func TestOneCallThroughTheBus(t *testing.T) {
	t.Parallel()
	s := systemtest.New(t)
	s.Start(t, nil, systemtest.Core()...)
	b := s.Account.Connect(t, bus.Options{Name: "runtime"})
	var opened subjects.SessionOpenResponse
	subject, _ := subjects.RPC(subjects.ServiceGatekeeper, subjects.VerbSessionOpen, "acme")
	err := b.Request(t.Context(), subject, subjects.SessionOpenRequest{
		RequestID: "r1", Principal: tool.Principal{ID: "p", Interactive: true}, Scopes: []string{}, Agent: subjects.AgentProfile{ID: "a", Tools: []string{"*"}},
	}, &opened)
	if err != nil {
		t.Fatal(err)
	}
	if len(opened.Tools) < 10 {
		t.Fatalf("tools: %d", len(opened.Tools))
	}
	run := tool.NewID()
	outcomes, _ := subjects.OutcomeFor("acme", run)
	got := make(chan []byte, 10)
	sub, err := b.Listen(t.Context(), outcomes)
	if err != nil {
		t.Fatal(err)
	}
	go sub.Run(t.Context(), func(d subjects.Delivery) { got <- append([]byte(nil), d.Data...) })
	propose, _ := subjects.Propose("acme", run)
	p := subjects.Proposal{SessionID: opened.SessionID, RunID: run, StepNumber: 1, OriginTrust: tool.User, Calls: []subjects.Call{
		{CallID: "c1", Name: "demo.echo", Arguments: json.RawMessage(`{"text":"hello"}`)},
		{CallID: "c2", Name: "workspace.write_text", Arguments: json.RawMessage(`{"path":"a.txt","text":"hi"}`)},
		{CallID: "c3", Name: "no.such", Arguments: json.RawMessage(`{}`)},
	}}
	data, err := subjects.ProposalDecoder{}.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), []subjects.Publication{{Stream: subjects.StreamPropose, Subject: propose, Data: data}})[0]; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 3 {
		select {
		case m := <-got:
			t.Logf("%s", m)
		case <-ctx.Done():
			t.Fatal("no outcome")
		}
	}
}
