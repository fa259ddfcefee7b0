package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

func TestSession(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int32
	w := newWorld(t, func(g *gatekeeper) {
		g.onVerb = func(verb, _ string, _ []byte) (bool, any, error) {
			busy := verb == subjects.VerbSessionOpen && attempts.Add(1) == 1
			return busy, nil, &subjects.RPCError{Code: subjects.CodeOverloaded, Message: "later"}
		}
	})
	ctx := within(t, 10*time.Second)
	options := client.SessionOptions{
		RequestID: "once", Principal: tool.Principal{ID: "ada"}, Agent: subjects.AgentProfile{ID: "helper"}, RunDeadline: time.Minute,
	}
	s, err := w.OpenSession(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.OpenSession(ctx, options)
	if err != nil || again.ID() != s.ID() {
		t.Errorf("the same request gave session %v, %v", again.ID(), err)
	}
	byName, ok := s.Tool("demo.echo")
	byAlias, ok2 := s.Tool("demo_echo")
	if _, ok3 := s.Tool("nothing"); !ok || !ok2 || ok3 || byName.Version != "1" || byAlias.Name != "demo.echo" {
		t.Errorf("found %+v, %+v", byName, byAlias)
	}
	if len(s.Tools()) != 1 || len(s.ToolSchemaSHA256()) != 64 || s.Servers()[0].ServerID != "acme" {
		t.Errorf("session is %+v", s)
	}
	if _, err := w.OpenSession(ctx, client.SessionOptions{}); !errors.As(err, new(*subjects.FieldError)) {
		t.Errorf("a session for nobody: %v", err)
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := within(t, 10*time.Second)
	attached := w.AttachSession(w.session(t).ID())
	o, err := attached.CallAs(ctx, tool.User, "demo.echo", map[string]any{"text": "hi"})
	if err != nil || o.Item.Content[0].Text != `{"text":"hi"}` {
		t.Fatalf("got %+v, %v", o, err)
	}
	p := w.gate.seen()[0]
	if p.OriginTrust != tool.User || p.Calls[0].ArgumentTrust["text"] != tool.User || p.SessionID != attached.ID() {
		t.Errorf("proposed %+v", p)
	}
	if o, err = attached.Call(ctx, "demo_echo", nil); err != nil || o.Item.Content[0].Text != `{}` {
		t.Errorf("without arguments: %+v, %v", o, err)
	}
	if p = w.gate.seen()[1]; p.OriginTrust != tool.ExternalUntrusted {
		t.Errorf("claimed %s", p.OriginTrust)
	}
	if _, err := attached.Call(ctx, "demo.echo", make(chan int)); !errors.As(err, new(*json.UnsupportedTypeError)) {
		t.Errorf("arguments that are no JSON: %v", err)
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	var actors atomic.Value
	w := newWorld(t, func(g *gatekeeper) {
		g.onCommand = func(actor string, c subjects.Command) string {
			actors.Store(actor)
			if c.Kind() == subjects.CommandApproval {
				return "decided"
			}
			return ""
		}
	})
	ctx := within(t, 20*time.Second)
	id := tool.NewID()
	for _, test := range []struct {
		kind subjects.CommandKind
		do   func() (client.Settled, error)
	}{
		{subjects.CommandCancel, func() (client.Settled, error) { return w.Cancel(ctx, id, "enough") }},
		{subjects.CommandRunEnd, func() (client.Settled, error) { return w.run(t).End(ctx) }},
		{subjects.CommandSessionClose, func() (client.Settled, error) { return w.session(t).Close(ctx) }},
		{subjects.CommandResume, func() (client.Settled, error) { return w.Resume(ctx, id, json.RawMessage(`"yes"`)) }},
		{subjects.CommandResume, func() (client.Settled, error) { return w.ResumeWithChild(ctx, id, json.RawMessage(`{}`)) }},
		{subjects.CommandCancel, func() (client.Settled, error) { return w.run(t).Cancel(ctx, "") }},
		{subjects.CommandReview, func() (client.Settled, error) { return w.Review(ctx, id, subjects.Happened, "") }},
		{subjects.CommandRevoke, func() (client.Settled, error) { return w.Revoke(ctx, "ada", []string{"mail:send"}) }},
	} {
		settled, err := test.do()
		if err != nil || settled.Kind != test.kind || settled.Result != subjects.CommandApplied || settled.CommandID == "" {
			t.Errorf("%s: got %+v, %v", test.kind, settled, err)
		}
	}
	if actors.Load() != "tester" {
		t.Errorf("the actor was %v", actors.Load())
	}
	for _, decide := range []func(context.Context, tool.ID, string) (client.Settled, error){w.Approve, w.Deny} {
		settled, err := decide(ctx, id, "")
		var refused *client.CommandRefusedError
		if !errors.As(err, &refused) || refused.Code != "decided" || settled.Code != "decided" {
			t.Errorf("decided before: got %+v, %v", settled, err)
		}
	}
}

// The same command twice is two messages and one result.
func TestCommandRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	command := &subjects.RunEnd{CommandID: "mine", RunID: tool.NewID()}
	ctx := within(t, 10*time.Second)
	first, err := w.Do(ctx, command)
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.Do(ctx, command)
	if diff := cmp.Diff(first, second); err != nil || diff != "" {
		t.Errorf("the second result differs: %s, %v", diff, err)
	}
	if _, err := w.CommandGet(ctx, "unknown"); !errors.Is(err, &subjects.RPCError{Code: subjects.CodeNotFound}) {
		t.Errorf("an unknown command: %v", err)
	}
}

func TestCommandUnsettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(g *gatekeeper) {
		g.onVerb = func(verb, _ string, _ []byte) (bool, any, error) {
			return verb == subjects.VerbCommandGet, nil, &subjects.RPCError{Code: subjects.CodeNotFound, Message: "no such row"}
		}
	})
	_, err := w.Do(within(t, 300*time.Millisecond), &subjects.RunEnd{CommandID: "mine", RunID: tool.NewID()})
	var unsettled *client.UnsettledError
	if !errors.As(err, &unsettled) || unsettled.CommandID != "mine" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	anonymous, err := client.Dial(within(t, 5*time.Second), client.Options{
		URL: w.account.Server.URL(), User: w.account.User.Name, Password: w.account.User.Password, Tenant: "acme",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer anonymous.Close()
	if _, err := anonymous.EndRun(within(t, 5*time.Second), tool.NewID()); !errors.Is(err, client.ErrNoActor) {
		t.Errorf("without an actor: %v", err)
	}
}

func TestArtifact(t *testing.T) {
	t.Parallel()
	good, bad, moved := tool.NewID(), tool.NewID(), tool.NewID()
	whole := strings.Repeat("0123456789abcdef", 4) + "end"
	w := newWorld(t, func(g *gatekeeper) {
		for _, id := range []tool.ID{good, bad, moved} {
			g.artifacts[id] = []byte(whole)
		}
		g.onVerb = func(verb, _ string, data []byte) (bool, any, error) {
			var r subjects.ArtifactsGetRequest
			if verb != subjects.VerbArtifactsGet {
				return false, nil, nil
			}
			if err := subjects.Decode(data, &r); err != nil {
				return true, nil, err
			}
			if r.Offset != 2*chunk {
				return false, nil, nil
			}
			answer, err := g.artifactsGet(data)
			if err != nil {
				return true, nil, err
			}
			a := answer.(subjects.ArtifactsGetResponse)
			switch r.ID {
			case bad:
				a.Data[3] ^= 1
			case moved:
				a.Offset++
			}
			return true, a, nil
		}
	})
	ctx := within(t, 10*time.Second)
	read := func(id tool.ID) (string, error) {
		r, err := w.Artifact(ctx, id)
		if err != nil {
			return "", err
		}
		if r.Ref().Bytes != int64(len(whole)) || r.Ref().MediaType != "text/plain" {
			t.Errorf("ref is %+v", r.Ref())
		}
		data, err := io.ReadAll(r)
		return string(data), err
	}
	if got, err := read(good); err != nil || got != whole {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := read(bad); !errors.Is(err, client.ErrCorrupt) {
		t.Errorf("a flipped bit: %v", err)
	}
	if _, err := read(moved); !errors.Is(err, client.ErrCorrupt) {
		t.Errorf("another chunk: %v", err)
	}
	if _, err := read(tool.NewID()); !errors.Is(err, &subjects.RPCError{Code: subjects.CodeNotFound}) {
		t.Errorf("an unknown artifact: %v", err)
	}
}

func TestListings(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var cursors []string
	w := newWorld(t, func(g *gatekeeper) {
		g.onVerb = func(verb, _ string, data []byte) (bool, any, error) {
			if verb != subjects.VerbUncertainList {
				return false, nil, nil
			}
			var r subjects.UncertainListRequest
			if err := subjects.Decode(data, &r); err != nil {
				return true, nil, err
			}
			mu.Lock()
			cursors = append(cursors, r.Page.Cursor)
			mu.Unlock()
			answer := subjects.UncertainListResponse{Calls: []subjects.UncertainInfo{}, NextCursor: "next"}
			if r.Page.Cursor == "next" {
				answer.NextCursor, answer.Calls = "", make([]subjects.UncertainInfo, 2)
			}
			return true, answer, nil
		}
	})
	ctx := within(t, 10*time.Second)
	n := 0
	for _, err := range w.UncertainList(ctx, subjects.UncertainListRequest{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{"", "next"}, cursors); n != 2 || diff != "" {
		t.Errorf("%d calls; cursors differ: %s", n, diff)
	}
	notFound := &subjects.RPCError{Code: subjects.CodeNotFound}
	for _, err := range w.ApprovalsList(ctx, subjects.ApprovalsListRequest{}) {
		if !errors.Is(err, notFound) {
			t.Errorf("approvals: %v", err)
		}
	}
	for _, err := range w.InvocationsList(ctx, subjects.InvocationsListRequest{}) {
		if !errors.Is(err, notFound) {
			t.Errorf("invocations: %v", err)
		}
	}
	if _, err := w.InvocationsGet(ctx, tool.NewID()); !errors.Is(err, notFound) {
		t.Errorf("invocation: %v", err)
	}
	if _, err := w.InvocationsGetByCall(ctx, tool.NewID(), 1, "a"); !errors.Is(err, notFound) {
		t.Errorf("invocation by call: %v", err)
	}
}

func TestPagesStopsWhenAsked(t *testing.T) {
	t.Parallel()
	fetched := 0
	for n := range client.Pages(subjects.Page{Limit: 2}, func(subjects.Page) ([]int, string, error) {
		fetched++
		return []int{1, 2}, "more", nil
	}) {
		if fetched == 2 && n == 1 {
			break
		}
	}
	if fetched != 2 {
		t.Errorf("%d portions", fetched)
	}
}

func TestReadAck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data  string
		ok    bool
		again bool
	}{
		"stored":       {`{"stream":"S","seq":7}`, true, false},
		"duplicate":    {`{"stream":"S","seq":7,"duplicate":true}`, false, false},
		"other stream": {`{"stream":"T","seq":7}`, false, false},
		"full":         {`{"error":{"code":400,"err_code":10077,"description":"maximum bytes exceeded"},"stream":"S","seq":0}`, false, true},
		"mismatch":     {`{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"}}`, false, false},
		"too large":    {`{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}`, false, false},
		"stranger":     {`hello`, false, false},
	} {
		again, err := client.ReadAck([]byte(test.data), "S")
		if (err == nil) != test.ok || again != test.again || err != nil && !errors.Is(err, client.ErrNotAccepted) {
			t.Errorf("%s: again %v, error %v", name, again, err)
		}
	}
}
