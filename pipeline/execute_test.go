package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolbus/toolbus/canonical"
	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/tool"
)

// books is an in-memory ExecuteStore that remembers what was asked of it.
type books struct {
	verdict   pipeline.MarkVerdict
	marks     int
	ended     *pipeline.Ending
	fenced    bool
	refuse    error
	artifacts []string
}

func (b *books) Mark(context.Context, *pipeline.Mark) (pipeline.MarkVerdict, error) {
	b.marks++
	v := b.verdict
	if v.Code == "" {
		v.SentAt = now
	}
	return v, nil
}

func (b *books) End(_ context.Context, e *pipeline.Ending) (pipeline.EndVerdict, error) {
	if err := b.refuse; err != nil {
		b.refuse = nil
		return pipeline.EndVerdict{}, err
	}
	b.ended = e
	return pipeline.EndVerdict{Written: !b.fenced}, nil
}

func (b *books) CreateArtifact(_ context.Context, _ *pipeline.Invocation, mediaType string, _ tool.Trust, _ int64, r io.Reader) (tool.ArtifactRef, error) {
	data, err := io.ReadAll(r)
	b.artifacts = append(b.artifacts, string(data))
	return tool.ArtifactRef{ID: tool.NewID(), MediaType: mediaType, Bytes: int64(len(data)), SHA256: strings.Repeat("0", 64)}, err
}

// stub is a tool made of functions.
type stub struct {
	spec    tool.Spec
	prepare func(ctx context.Context) error
	execute func(ctx context.Context, exec *tool.Execution) (tool.Result, error)
}

func (s *stub) Spec() tool.Spec { return s.spec }

func (s *stub) Prepare(ctx context.Context, _ json.RawMessage, _ *tool.Execution) error {
	if s.prepare == nil {
		return nil
	}
	return s.prepare(ctx)
}

func (s *stub) Execute(ctx context.Context, _ json.RawMessage, exec *tool.Execution) (tool.Result, error) {
	return s.execute(ctx, exec)
}

type oneTool struct{ impl tool.Tool }

func (o oneTool) Tool(context.Context, string, tool.Spec) (tool.Tool, error) { return o.impl, nil }

func writeSpec(class tool.Idempotency) tool.Spec {
	return tool.Spec{
		Name: "demo.write", Version: "1", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`),
		SideEffect: tool.ExternalWrite, Risk: tool.RiskLow, Idempotency: class, TimeoutSeconds: 5, MaximumOutputBytes: 8192,
		Kind: tool.Capability, TargetKind: tool.InProcess, OutputTrust: tool.InternalTool, Source: tool.Builtin,
	}
}

func executed(t *testing.T, b *books, s *stub, change func(*pipeline.Claim)) (*books, error) {
	t.Helper()
	return executedIn(t.Context(), t, b, s, change)
}

func executedIn(ctx context.Context, t *testing.T, b *books, s *stub, change func(*pipeline.Claim)) (*books, error) {
	t.Helper()
	table, err := outcome.Load()
	if err != nil {
		t.Fatal(err)
	}
	pin, err := registry.NewPin([]tool.Spec{s.spec})
	if err != nil {
		t.Fatal(err)
	}
	x := pipeline.NewExecutor(pipeline.ExecuteOptions{Store: b, Tools: oneTool{s}, Table: table, InlineMaximum: 4096})
	c := &pipeline.Claim{
		Invocation: pipeline.Invocation{
			TenantID: "t", ID: tool.NewID(), ToolName: s.spec.Name, ToolVersion: s.spec.Version, Class: s.spec.Idempotency,
			SideEffect: s.spec.SideEffect, Arguments: []byte("{}"), ArgumentsHash: canonical.Hash([]byte("{}")), Attempt: 1, ClaimID: tool.NewID(), DeadlineAt: now.Add(time.Hour),
		},
		Now: now, Until: now.Add(time.Minute),
	}
	if change != nil {
		change(c)
	}
	session := &pipeline.Session{TenantID: "t", Catalog: pipeline.NewCatalog(pin)}
	return b, x.Execute(ctx, session, c)
}

func returns(r tool.Result, err error) func(context.Context, *tool.Execution) (tool.Result, error) {
	return func(context.Context, *tool.Execution) (tool.Result, error) { return r, err }
}

func TestExecuteConclusions(t *testing.T) {
	t.Parallel()
	ok := tool.Succeed(tool.Text("done"))
	tests := map[string]struct {
		class   tool.Idempotency
		books   books
		prepare func(context.Context) error
		execute func(context.Context, *tool.Execution) (tool.Result, error)
		change  func(*pipeline.Claim)
		status  tool.OutcomeStatus
		reason  string
		marks   int
		schema  string
	}{
		"success": {execute: returns(ok, nil), status: tool.OutcomeSucceeded, marks: 1},
		"an output schema is a promise of structured output": {
			schema: `{"type":"object"}`, execute: returns(ok, nil), status: tool.OutcomeFailed, reason: "tool.output_invalid", marks: 1,
		},
		"the tool failed": {
			execute: returns(tool.Fail(tool.FailUpstreamError, "x"), nil), status: tool.OutcomeFailed, reason: "tool.upstream_error", marks: 1,
		},
		"a defect of a repeatable tool": {
			class: tool.Idempotent, execute: returns(tool.Result{}, errors.New("bug")), status: tool.OutcomeFailed, reason: "tool.internal", marks: 1,
		},
		"a defect past the watermark": {
			class: tool.NonIdempotent, execute: returns(tool.Result{}, errors.New("bug")), status: tool.OutcomeUncertain, reason: "tool.outcome_unknown", marks: 1,
		},
		"a panic": {
			class: tool.ReadOnly, execute: func(context.Context, *tool.Execution) (tool.Result, error) { panic("boom") },
			status: tool.OutcomeFailed, reason: "tool.internal", marks: 1,
		},
		"neither success nor failure": {class: tool.ReadOnly, execute: returns(tool.Result{}, nil), status: tool.OutcomeFailed, reason: "tool.internal", marks: 1},
		"unavailable before the watermark": {
			class:   tool.NonIdempotent,
			prepare: func(context.Context) error { return &tool.Unavailable{Code: "tool.server_unreachable"} },
			status:  tool.OutcomeUnavailable, reason: "tool.server_unreachable",
		},
		"authority gone before any effect": {
			books: books{verdict: pipeline.MarkVerdict{Code: "policy.authority.revoked"}}, status: tool.OutcomeDenied, reason: "policy.authority.revoked", marks: 1,
		},
		"authority gone after an earlier effect": {
			class: tool.Idempotent, books: books{verdict: pipeline.MarkVerdict{Code: "policy.scope.missing", Earlier: true}},
			status: tool.OutcomeFailed, reason: "policy.authority.revoked_after_effect", marks: 1,
		},
		"no time left": {change: func(c *pipeline.Claim) { c.DeadlineAt = now }, status: tool.OutcomeFailed, reason: "tool.timeout"},
		"over":         {change: func(c *pipeline.Claim) { c.Over = "tool.not_started" }, status: tool.OutcomeFailed, reason: "tool.not_started"},
		"uncertain repeat": {
			change: func(c *pipeline.Claim) { c.Over = "tool.uncertain_repeat" }, status: tool.OutcomeDenied, reason: "tool.uncertain_repeat",
		},
		"structured output breaks its schema": {
			schema:  `{"type":"object","properties":{"n":{"type":"integer"}}}`,
			execute: returns(tool.Result{OK: true, Structured: json.RawMessage(`{"n":"x"}`)}, nil),
			status:  tool.OutcomeFailed, reason: "tool.output_invalid", marks: 1,
		},
		"structured output cannot be kept": {
			execute: returns(tool.Result{OK: true, Structured: json.RawMessage(`{"n":1,"s":"\u0000"}`)}, nil),
			status:  tool.OutcomeFailed, reason: "tool.output_invalid", marks: 1,
		},
		"beyond the hard ceiling": {
			execute: returns(tool.Succeed(tool.Text(strings.Repeat("x", 40_000))), nil),
			status:  tool.OutcomeFailed, reason: "tool.output_too_large", marks: 1,
		},
		"the database refuses the result": {
			class: tool.ReadOnly, books: books{refuse: pipeline.ErrUnstorable}, execute: returns(ok, nil),
			status: tool.OutcomeFailed, reason: "tool.output_invalid", marks: 1,
		},
		"a tool cannot claim what the pipeline concludes": {
			execute: returns(tool.Result{Failure: &tool.Failure{Kind: tool.FailInternal, ReasonCode: "tool.outcome_unknown"}}, nil),
			status:  tool.OutcomeFailed, reason: "tool.internal", marks: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			class := tt.class
			if class == "" {
				class = tool.ConditionallyIdempotent
			}
			run := tt.execute
			entered := false
			s := &stub{spec: writeSpec(class), prepare: tt.prepare, execute: func(ctx context.Context, e *tool.Execution) (tool.Result, error) {
				entered = true
				return run(ctx, e)
			}}
			if tt.schema != "" {
				s.spec.OutputSchema = json.RawMessage(tt.schema)
			}
			b, err := executed(t, &tt.books, s, tt.change)
			if err != nil {
				t.Fatal(err)
			}
			st := b.ended.Settlement
			if st.Outcome != tt.status || st.Reason != tt.reason || b.marks != tt.marks {
				t.Errorf("got %s %q after %d marks, want %s %q after %d", st.Outcome, st.Reason, b.marks, tt.status, tt.reason, tt.marks)
			}
			if entered != (run != nil) {
				t.Errorf("the tool was entered: %v", entered)
			}
		})
	}
}

// TestExecuteDeadline: a deadline after the watermark is uncertain for a call
// that must not be repeated, and a timeout for every other.
func TestExecuteDeadline(t *testing.T) {
	t.Parallel()
	for class, want := range map[tool.Idempotency]string{
		tool.NonIdempotent: "tool.outcome_unknown", tool.Idempotent: "tool.timeout",
		tool.ConditionallyIdempotent: "tool.timeout", tool.ReadOnly: "tool.timeout",
	} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &stub{spec: writeSpec(class), execute: func(ctx context.Context, e *tool.Execution) (tool.Result, error) {
					if e.Timeout != 2*time.Second {
						t.Errorf("effective timeout %v", e.Timeout)
					}
					<-ctx.Done()
					return tool.Result{}, ctx.Err()
				}}
				b, err := executed(t, &books{}, s, func(c *pipeline.Claim) { c.DeadlineAt = now.Add(2 * time.Second) })
				if err != nil || b.ended.Settlement.Reason != want {
					t.Fatalf("err %v, reason %q, want %q", err, b.ended.Settlement.Reason, want)
				}
			})
		})
	}
}

// TestExecuteLost: a worker that lost its call starts nothing and writes
// nothing; a result in hand is offered, and refused by the fence.
func TestExecuteLost(t *testing.T) {
	t.Parallel()
	none := func(context.Context, *tool.Execution) (tool.Result, error) {
		t.Error("the tool was entered")
		return tool.Result{}, nil
	}
	t.Run("fenced at the watermark", func(t *testing.T) {
		t.Parallel()
		b, err := executed(t, &books{verdict: pipeline.MarkVerdict{Code: pipeline.Fenced}}, &stub{spec: writeSpec(tool.NonIdempotent), execute: none}, nil)
		if !errors.Is(err, pipeline.ErrLost) || b.ended != nil {
			t.Fatalf("err %v, something was written: %v", err, b.ended != nil)
		}
	})
	t.Run("lease over by the holder's clock", func(t *testing.T) {
		t.Parallel()
		b, err := executed(t, &books{}, &stub{spec: writeSpec(tool.NonIdempotent), execute: none}, func(c *pipeline.Claim) {
			c.StillHeld = func() bool { return false }
		})
		if !errors.Is(err, pipeline.ErrLost) || b.ended != nil {
			t.Fatalf("err %v, something was written: %v", err, b.ended != nil)
		}
	})
	t.Run("cut in the middle", func(t *testing.T) {
		t.Parallel()
		ctx, cut := context.WithCancelCause(t.Context())
		s := &stub{spec: writeSpec(tool.NonIdempotent), execute: func(ctx context.Context, _ *tool.Execution) (tool.Result, error) {
			cut(pipeline.ErrCut)
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}}
		b, err := executedIn(ctx, t, &books{}, s, nil)
		if !errors.Is(err, pipeline.ErrLost) || b.ended != nil {
			t.Fatalf("err %v, something was written: %v", err, b.ended != nil)
		}
	})
	t.Run("fenced at the result", func(t *testing.T) {
		t.Parallel()
		_, err := executed(t, &books{fenced: true}, &stub{spec: writeSpec(tool.NonIdempotent), execute: returns(tool.Succeed(tool.Text("x")), nil)}, nil)
		if !errors.Is(err, pipeline.ErrLost) {
			t.Fatal(err)
		}
	})
}

// TestExecuteRunOver: a call that is told to stop may still bring its result.
func TestExecuteRunOver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		class  tool.Idempotency
		result tool.Result
		want   string
	}{
		"stopped, repeatable": {tool.Idempotent, tool.Result{}, "tool.run_cancelled"},
		"stopped, uncertain":  {tool.NonIdempotent, tool.Result{}, "tool.outcome_unknown"},
		"finished in time":    {tool.NonIdempotent, tool.Succeed(tool.Text("x")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancelCause(t.Context())
			s := &stub{spec: writeSpec(tt.class), execute: func(ctx context.Context, _ *tool.Execution) (tool.Result, error) {
				stop(pipeline.ErrRunOver)
				<-ctx.Done()
				if tt.result.OK {
					return tt.result, nil
				}
				return tool.Result{}, ctx.Err()
			}}
			b, err := executedIn(ctx, t, &books{}, s, nil)
			if err != nil || b.ended.Settlement.Reason != tt.want {
				t.Fatalf("err %v, reason %q, want %q", err, b.ended.Settlement.Reason, tt.want)
			}
		})
	}
}

// TestExecuteLargeOutput: the whole goes into an artifact, the model reads an
// excerpt that names it.
func TestExecuteLargeOutput(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("line\n", 1200)
	b, err := executed(t, &books{}, &stub{spec: writeSpec(tool.Idempotent), execute: returns(tool.Succeed(tool.Text(whole)), nil)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	st := b.ended.Settlement
	if st.Outcome != tool.OutcomeSucceeded || !st.Truncated || st.Artifact == nil || len(b.artifacts) != 1 || b.artifacts[0] != whole {
		t.Fatalf("settlement %s %q, truncated %v, artifacts %d", st.Outcome, st.Reason, st.Truncated, len(b.artifacts))
	}
	if !strings.Contains(string(st.Item), "full output: artifact:"+st.Artifact.ID.String()) {
		t.Errorf("the excerpt does not name the artifact: %s", st.Item)
	}
	var result struct{ Content []tool.Part }
	if err := json.Unmarshal(st.Result, &result); err != nil || len(result.Content) != 1 || result.Content[0].Text != whole {
		t.Errorf("canonical content is not whole: %v", err)
	}
}
