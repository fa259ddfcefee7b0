package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

func TestTail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	run, invocation := tool.NewID(), tool.NewID()
	call := subjects.CallEvent{
		Event: subjects.EventProposed, OccurredAt: time.Unix(1, 0), TenantID: "acme", Seq: 1, InvocationID: invocation, RunID: run,
		CallID: "a", ToolName: "demo.echo", ToolSource: tool.Builtin, ToolVersion: "1", IdempotencyClass: tool.ReadOnly,
	}
	emit := func(tenant string, run tool.ID, name string, data []byte) {
		subject, err := subjects.EventFor(tenant, run, name)
		if err == nil {
			err = w.gate.bus.Notify(subject, data)
		}
		if err != nil {
			t.Error(err)
		}
	}
	tail := func(follow func(context.Context, client.TailOptions, func(client.Event)) error, o client.TailOptions) []string {
		ctx, cancel := context.WithCancel(within(t, 10*time.Second))
		defer cancel()
		var got []string
		o.Ready = func() {
			emit("acme", run, call.Event, call.AppendJSON(nil))
			emit("rival", run, call.Event, call.AppendJSON(nil)) // lies about its tenant
			emit("acme", run, call.Event, []byte(`{}`))
			end := subjects.Event{Event: "mcp.server.pinned", EventID: "1", OccurredAt: time.Unix(1, 0).UTC(), TenantID: "rival", Data: map[string]any{}}
			for _, end.TenantID = range []string{"rival", "acme"} {
				data, err := end.Encode()
				if err != nil {
					t.Error(err)
				}
				emit(end.TenantID, tool.ID{}, end.Event, data)
			}
			emit("acme", run, call.Event, call.AppendJSON(nil))
		}
		err := follow(ctx, o, func(e client.Event) {
			got = append(got, e.Tenant+" "+e.Name)
			if (e.Call == nil) == (e.Other == nil) || e.Call != nil && e.Run != run {
				t.Errorf("event is %+v", e)
			}
			if n := len(got); n > 1 && strings.HasSuffix(got[n-1], "proposed") {
				cancel()
			}
		})
		if err != nil {
			t.Error(err)
		}
		return got
	}
	const proposed, pinned = "acme tool.call.proposed", "acme mcp.server.pinned"
	if diff := cmp.Diff([]string{proposed, pinned, proposed}, tail(w.Tail, client.TailOptions{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{proposed, proposed}, tail(w.Tail, client.TailOptions{Run: run, Event: "tool.call.*"})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{proposed, "rival mcp.server.pinned", pinned, proposed}, tail(w.TailAll, client.TailOptions{Event: ">"})); diff != "" {
		t.Error(diff)
	}
	for _, pattern := range []string{"Tool.call", "tool..call", ">.tool", "tool call"} {
		if err := w.Tail(t.Context(), client.TailOptions{Event: pattern}, nil); !errors.Is(err, subjects.ErrToken) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestTailTellsOfGaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(within(t, 20*time.Second))
	defer cancel()
	missed := false
	err := w.Tail(ctx, client.TailOptions{
		Ready:  func() { w.line.cut(); w.line.mend() },
		Missed: func() { missed = true; cancel() },
	}, func(client.Event) {})
	if err != nil || !missed {
		t.Errorf("missed %v, %v", missed, err)
	}
}
