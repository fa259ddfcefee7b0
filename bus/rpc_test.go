package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// serve starts a service and waits until it listens.
func serve(t *testing.T, b *bus.Bus, service bus.RPCService) {
	t.Helper()
	ready := make(chan struct{})
	service.Name, service.Version = "gatekeeper", "1.0.0"
	service.Ready = func() { close(ready) }
	start(t, func(ctx context.Context) error { return b.Serve(ctx, service) })
	select {
	case <-ready:
	case <-within(t, 10*time.Second).Done():
		t.Fatal("the service never listened")
	}
}

func endpoint(verb string, handler func(context.Context, string, []byte) (any, error)) bus.Endpoint {
	return bus.Endpoint{Verb: verb, Subject: subjects.RPCOf(subjects.ServiceGatekeeper, verb), Handler: handler}
}

func rpc(t *testing.T, verb, tenant string) string {
	t.Helper()
	s, err := subjects.RPC(subjects.ServiceGatekeeper, verb, tenant)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type traceKey struct{}

func TestRequest(t *testing.T) {
	t.Parallel()
	account := bustest.NewAccount(t, bustest.Small())
	b := account.Connect(t, bus.Options{
		Name: "rpc",
		Inject: func(context.Context) map[string]string {
			return map[string]string{"traceparent": "00-cc-dd-01"}
		},
		Extract: func(ctx context.Context, h map[string]string) context.Context {
			return context.WithValue(ctx, traceKey{}, h["traceparent"])
		},
	})
	var tenants, traces atomic.Value
	serve(t, b, bus.RPCService{Endpoints: []bus.Endpoint{
		endpoint(subjects.VerbCommandGet, func(ctx context.Context, tenant string, data []byte) (any, error) {
			tenants.Store(tenant)
			traces.Store(ctx.Value(traceKey{}))
			var request subjects.CommandGetRequest
			if err := subjects.Decode(data, &request); err != nil {
				return nil, fmt.Errorf("command_get: %w", err)
			}
			switch request.CommandID {
			case "unknown":
				return nil, &subjects.RPCError{Code: subjects.CodeNotFound, Message: "no such command"}
			case "defect":
				return nil, errors.New("password=hunter2")
			case "panic":
				panic("password=hunter2")
			case "big":
				return subjects.CommandGetResponse{Code: strings.Repeat("x", 2<<20)}, nil
			}
			return subjects.CommandGetResponse{CommandID: request.CommandID, Result: subjects.CommandApplied}, nil
		}),
	}})
	ctx := within(t, 20*time.Second)
	subject := rpc(t, subjects.VerbCommandGet, "acme")
	var got subjects.CommandGetResponse
	if err := b.Request(ctx, subject, subjects.CommandGetRequest{CommandID: "c1"}, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(subjects.CommandGetResponse{CommandID: "c1", Result: "applied"}, got); diff != "" {
		t.Error(diff)
	}
	if tenants.Load() != "acme" || traces.Load() != "00-cc-dd-01" {
		t.Errorf("tenant %v, trace %v", tenants.Load(), traces.Load())
	}
	for id, code := range map[string]string{
		"unknown": subjects.CodeNotFound, "defect": subjects.CodeInternal, "panic": subjects.CodeInternal, "big": subjects.CodeTooLarge,
	} {
		err := b.Request(ctx, subject, subjects.CommandGetRequest{CommandID: id}, &got)
		if !errors.Is(err, &subjects.RPCError{Code: code}) {
			t.Errorf("%s: %v, want %s", id, err, code)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the answer carries what only operators may see: %v", id, err)
		}
	}
	err := b.Request(ctx, subject, map[string]any{"v": 1, "id": 3}, &got)
	if !errors.Is(err, &subjects.RPCError{Code: subjects.CodeMalformed}) {
		t.Errorf("malformed request: %v", err)
	}
	err = b.Request(ctx, rpc(t, subjects.VerbOutcomeGet, "acme"), subjects.OutcomeGetRequest{RunID: tool.NewID()}, &got)
	if !errors.Is(err, bus.ErrNoService) {
		t.Errorf("a verb nobody serves: %v", err)
	}
}

// Slow requests hold up nobody, and what exceeds the bound hears so at once.
func TestServeIsBoundedAndParallel(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	release := make(chan struct{})
	begun := make(chan struct{}, 10)
	serve(t, b, bus.RPCService{Concurrency: 3, Endpoints: []bus.Endpoint{
		endpoint(subjects.VerbSessionOpen, func(context.Context, string, []byte) (any, error) {
			begun <- struct{}{}
			<-release
			return map[string]int{"v": 1}, nil
		}),
	}})
	results := make(chan error, 10)
	ask := func() {
		var into map[string]int
		results <- b.Request(within(t, 20*time.Second), rpc(t, subjects.VerbSessionOpen, "acme"), struct{}{}, &into)
	}
	for range 3 {
		go ask()
	}
	receive(t, begun, 3) // all three at once: no endpoint has a single thread
	go ask()
	if err := receive(t, results, 1)[0]; !errors.Is(err, &subjects.RPCError{Code: subjects.CodeOverloaded}) {
		t.Errorf("the fourth request: %v", err)
	}
	close(release)
	for _, err := range receive(t, results, 3) {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestHandlerTimeout(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	serve(t, b, bus.RPCService{Timeout: 50 * time.Millisecond, Endpoints: []bus.Endpoint{
		endpoint(subjects.VerbSessionOpen, func(ctx context.Context, _ string, _ []byte) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
	}})
	var into map[string]int
	err := b.Request(within(t, 10*time.Second), rpc(t, subjects.VerbSessionOpen, "acme"), struct{}{}, &into)
	if !errors.Is(err, &subjects.RPCError{Code: subjects.CodeInternal}) {
		t.Errorf("got %v", err)
	}
}

func TestServeRefusesABadService(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	for name, service := range map[string]bus.RPCService{
		"version":  {Name: "x", Version: "one"},
		"endpoint": {Name: "x", Version: "1.0.0", Endpoints: []bus.Endpoint{{Verb: "with.dot", Subject: "a.*"}}},
	} {
		if err := b.Serve(t.Context(), service); err == nil {
			t.Errorf("%s: served", name)
		}
	}
}

// Errors are answered after the library's handler has returned; nothing of the
// request may be written to then (the race detector looks).
func TestErrorsTogether(t *testing.T) {
	t.Parallel()
	b := bustest.NewAccount(t, bustest.Small()).Connect(t, bus.Options{Name: "rpc"})
	serve(t, b, bus.RPCService{Endpoints: []bus.Endpoint{
		endpoint(subjects.VerbCommandGet, func(context.Context, string, []byte) (any, error) {
			return nil, &subjects.RPCError{Code: subjects.CodeNotFound, Message: "no such command"}
		}),
	}})
	subject := rpc(t, subjects.VerbCommandGet, "acme")
	ctx := within(t, 30*time.Second)
	errs := make(chan error, 60)
	for range cap(errs) {
		go func() { errs <- b.Request(ctx, subject, subjects.CommandGetRequest{CommandID: "unknown"}, nil) }()
	}
	for range cap(errs) {
		var refused *subjects.RPCError
		if err := <-errs; !errors.As(err, &refused) || refused.Code != subjects.CodeNotFound {
			t.Errorf("got %v", err)
		}
	}
}
