package builtin_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"github.com/toolbus/toolbus/builtin"
	"github.com/toolbus/toolbus/internal/egress"
	"github.com/toolbus/toolbus/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// artifacts is a store in memory with the bound of the real one.
type artifacts struct {
	mu     sync.Mutex
	stored [][]byte
}

func (s *artifacts) Create(ctx context.Context, mediaType string, r io.Reader) (tool.ArtifactRef, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return tool.ArtifactRef{}, fmt.Errorf("read: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored = append(s.stored, b)
	sum := sha256.Sum256(b)
	return tool.ArtifactRef{ID: tool.NewID(), MediaType: mediaType, Bytes: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}, ctx.Err()
}

// bench is what a test of a tool has at hand.
type bench struct {
	tools     []tool.Tool
	dir       string
	exec      *tool.Execution
	artifacts *artifacts
}

func newBench(t *testing.T, o builtin.Options) *bench {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	store := &artifacts{}
	return &bench{
		tools: builtin.All(o), dir: dir, artifacts: store,
		exec: &tool.Execution{
			InvocationID: tool.NewID(), AttemptNumber: 1, IdempotencyKey: strings.Repeat("ab", 32),
			Workspace: root, Artifacts: store,
			MarkEffectSent: func(context.Context) error { return nil },
		},
	}
}

func (b *bench) tool(t *testing.T, name string) tool.Tool {
	t.Helper()
	i := slices.IndexFunc(b.tools, func(x tool.Tool) bool { return x.Spec().Name == name })
	if i < 0 {
		t.Fatalf("no tool %s", name)
	}
	return b.tools[i]
}

// execute runs a tool the way the pipeline does: the arguments pass its schema, and so
// does a successful result.
func (b *bench) execute(t *testing.T, name, arguments string) (tool.Result, error) {
	t.Helper()
	target := b.tool(t, name)
	spec := target.Spec()
	if err := validate(t, spec.InputSchema, arguments); err != nil {
		t.Fatalf("arguments %s: %v", arguments, err)
	}
	exec := *b.exec
	exec.MaximumOutputBytes, exec.Target = spec.MaximumOutputBytes, spec.TargetKind
	result, err := target.Execute(t.Context(), json.RawMessage(arguments), &exec)
	if err == nil {
		checkResult(t, spec, result)
	}
	return result, err
}

// succeed runs a tool that has to succeed, and gives its text.
func (b *bench) succeed(t *testing.T, name, arguments string) string {
	t.Helper()
	result, err := b.execute(t, name, arguments)
	if err != nil || !result.OK {
		t.Fatalf("%s %s: %v, failure %+v", name, arguments, err, result.Failure)
	}
	return text(result)
}

// refuse runs a tool that has to fail, and gives the reason code.
func (b *bench) refuse(t *testing.T, name, arguments string) string {
	t.Helper()
	result, err := b.execute(t, name, arguments)
	if err != nil || result.OK {
		t.Fatalf("%s %s: %v, result %+v", name, arguments, err, result)
	}
	if result.Failure.ReasonCode == "" {
		return result.Failure.Kind.Code()
	}
	return result.Failure.ReasonCode
}

func checkResult(t *testing.T, spec tool.Spec, r tool.Result) {
	t.Helper()
	if r.OK != (r.Failure == nil) {
		t.Errorf("%s: OK is %t and the failure %+v", spec.Name, r.OK, r.Failure)
	}
	if r.Failure != nil && (!r.Failure.Kind.Valid() || (r.Failure.ReasonCode != "" && !strings.HasPrefix(r.Failure.ReasonCode, r.Failure.Kind.Code()+"."))) {
		t.Errorf("%s: failure %+v", spec.Name, r.Failure)
	}
	if r.OK && len(spec.OutputSchema) > 0 {
		if err := validate(t, spec.OutputSchema, string(r.Structured)); err != nil {
			t.Errorf("%s: structured %s: %v", spec.Name, r.Structured, err)
		}
	}
}

func text(r tool.Result) string {
	var b strings.Builder
	for _, p := range r.Content {
		if p.Type == tool.PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// validate checks a document against a schema under which an object has no other
// properties than it declares, as the pipeline has it.
func validate(t *testing.T, schema json.RawMessage, document string) error {
	t.Helper()
	var closed any
	if err := json.Unmarshal(schema, &closed); err != nil {
		t.Fatalf("schema %s: %v", schema, err)
	}
	closeObjects(closed)
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", closed); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatalf("schema %s: %v", schema, err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
	if err != nil {
		return fmt.Errorf("document %q: %w", document, err)
	}
	return compiled.Validate(value)
}

func closeObjects(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		if _, declared := s["additionalProperties"]; s["type"] == "object" && !declared {
			s["additionalProperties"] = false
		}
		for _, v := range s {
			closeObjects(v)
		}
	case []any:
		for _, v := range s {
			closeObjects(v)
		}
	}
}

// quote writes a value as JSON.
func quote(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestSpecs(t *testing.T) {
	t.Parallel()
	type class struct {
		effect      tool.SideEffect
		idempotency tool.Idempotency
		risk        tool.Risk
		target      tool.Target
		trust       tool.Trust
	}
	low := func(e tool.SideEffect, i tool.Idempotency) class {
		return class{e, i, tool.RiskLow, tool.InProcess, tool.InternalTool}
	}
	want := map[string]class{
		"system.time":          low(tool.EffectNone, tool.ReadOnly),
		"math.evaluate":        low(tool.EffectNone, tool.ReadOnly),
		"workspace.list":       low(tool.WorkspaceRead, tool.ReadOnly),
		"workspace.read_text":  low(tool.WorkspaceRead, tool.ReadOnly),
		"workspace.search":     low(tool.WorkspaceRead, tool.ReadOnly),
		"workspace.write_text": low(tool.WorkspaceWrite, tool.Idempotent),
		"workspace.edit_text":  low(tool.WorkspaceWrite, tool.ConditionallyIdempotent),
		"workspace.delete":     {tool.WorkspaceWrite, tool.Idempotent, tool.RiskMedium, tool.InProcess, tool.InternalTool},
		"artifact.export":      low(tool.WorkspaceRead, tool.Idempotent),
		"web.fetch":            {tool.NetworkRead, tool.ReadOnly, tool.RiskLow, tool.WebProvider, tool.ExternalUntrusted},
		"sandbox.run_command":  {tool.CodeExecution, tool.NonIdempotent, tool.RiskMedium, tool.SandboxTarget, tool.ExternalUntrusted},
		"demo.echo":            low(tool.EffectNone, tool.ReadOnly),
		"demo.slow":            low(tool.EffectNone, tool.ReadOnly),
		"demo.flaky":           low(tool.EffectNone, tool.ReadOnly),
		"demo.large_output":    low(tool.EffectNone, tool.ReadOnly),
		"demo.external_write":  {tool.ExternalWrite, tool.NonIdempotent, tool.RiskMedium, tool.InProcess, tool.InternalTool},
	}
	for _, x := range builtin.All(builtin.Options{MaximumOutputBytes: 1 << 20}) {
		s := x.Spec()
		expected, ok := want[s.Name]
		if got := (class{s.SideEffect, s.Idempotency, s.Risk, s.TargetKind, s.OutputTrust}); !ok || got != expected {
			t.Errorf("%s is %+v, want %+v", s.Name, got, expected)
		}
		delete(want, s.Name)
		if s.AllowParallel && !s.SideEffect.ReadOnly() {
			t.Errorf("%s may not run in parallel", s.Name)
		}
		if s.Version == "" || s.Kind != tool.Capability || s.TimeoutSeconds <= 0 || s.MaximumOutputBytes <= 0 || s.MaximumOutputBytes > 1<<20 {
			t.Errorf("%s is incomplete: %+v", s.Name, s)
		}
		checkSchema(t, s)
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}

// checkSchema requires of an input schema that it describes everything and that its
// defaults are valid.
func checkSchema(t *testing.T, s tool.Spec) {
	t.Helper()
	var in struct {
		Type       string `json:"type"`
		Required   []string
		Properties map[string]struct {
			Description string
			Default     any
		}
	}
	if err := json.Unmarshal(s.InputSchema, &in); err != nil || in.Type != "object" {
		t.Fatalf("%s: input schema: %v", s.Name, err)
	}
	defaults := map[string]any{}
	for name, p := range in.Properties {
		if p.Description == "" {
			t.Errorf("%s: %s has no description", s.Name, name)
		}
		if p.Default != nil {
			defaults[name] = p.Default
		}
	}
	if len(in.Required) == 0 {
		if err := validate(t, s.InputSchema, quote(defaults)); err != nil {
			t.Errorf("%s: defaults: %v", s.Name, err)
		}
	}
	if len(s.OutputSchema) > 0 {
		_ = validate(t, s.OutputSchema, "{}") // compiles
	}
}

func TestCeilingIsRespected(t *testing.T) {
	t.Parallel()
	for _, x := range builtin.All(builtin.Options{MaximumOutputBytes: 2048}) {
		if got := x.Spec().MaximumOutputBytes; got > 2048 {
			t.Errorf("%s declares %d bytes", x.Spec().Name, got)
		}
	}
}

// TestArgumentsAreDecodedStrictly hands every tool what the pipeline would never let
// through.
func TestArgumentsAreDecodedStrictly(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	for _, x := range b.tools {
		for _, arguments := range []string{``, `null null`, `{"nobody_declared_this":1}`, `[]`, `{} {}`, `{`} {
			r, err := x.Execute(t.Context(), json.RawMessage(arguments), b.exec)
			if err != nil || r.OK || r.Failure.Kind != tool.FailInvalidArguments {
				t.Errorf("%s with %q: %+v, %v", x.Spec().Name, arguments, r, err)
			}
			if p, ok := x.(tool.Preparer); ok && arguments != `{}` {
				exec := *b.exec
				if err := p.Prepare(t.Context(), json.RawMessage(arguments), &exec); err != nil {
					t.Errorf("%s prepares %q: %v", x.Spec().Name, arguments, err)
				}
			}
		}
	}
}

func TestEndedContextStopsEveryTool(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range b.tools {
		if _, err := x.Execute(ctx, json.RawMessage(`{}`), b.exec); err == nil || ctx.Err() == nil {
			t.Errorf("%s ran", x.Spec().Name)
		}
	}
}

func TestSystemTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 1, 1, 3, 4, 5, 6, time.UTC)
	b := newBench(t, builtin.Options{Now: func() time.Time { return now }})
	if got, want := b.succeed(t, "system.time", `{}`), "Friday, 2027-01-01T03:04:05Z (UTC, week 2026-W53)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r, err := b.execute(t, "system.time", `{"timezone":"America/New_York"}`)
	want := `{"time":"2026-12-31T22:04:05-05:00","utc":"2027-01-01T03:04:05Z","unix":1798772645,"timezone":"America/New_York","offset":"-05:00","weekday":"Thursday","iso_week":"2026-W53"}`
	if err != nil || string(r.Structured) != want {
		t.Errorf("got %s (%v), want %s", r.Structured, err, want)
	}
	for _, zone := range []string{"Nowhere/City", "Local", "../../etc/passwd", "/etc/localtime"} {
		if got := b.refuse(t, "system.time", quote(map[string]string{"timezone": zone})); got != "tool.invalid_arguments.timezone" {
			t.Errorf("%s: %s", zone, got)
		}
	}
}

func TestMathEvaluate(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	for arguments, want := range map[string]string{
		`{"expression":"0.1+0.2"}`:            `{"result":"0.3","exact":true}`,
		`{"expression":"1/3","digits":5}`:     `{"result":"0.33333","exact":false,"fraction":"1/3"}`,
		`{"expression":"cos(0)"}`:             `{"result":"1","exact":false}`,
		`{"expression":"2/3","digits":0}`:     `{"result":"1","exact":false,"fraction":"2/3"}`,
		`{"expression":"-1/3","digits":0}`:    `{"result":"0","exact":false,"fraction":"-1/3"}`,
		`{"expression":"2^200 % 1000000007"}`: `{"result":"430369812","exact":true}`,
	} {
		r, err := b.execute(t, "math.evaluate", arguments)
		if arguments == `{"expression":"2^200 % 1000000007"}` {
			// checked against a modular power computed another way
			n := 1
			for range 200 {
				n = n * 2 % 1000000007
			}
			want = fmt.Sprintf(`{"result":"%d","exact":true}`, n)
		}
		if err != nil || string(r.Structured) != want {
			t.Errorf("%s: %s (%v), want %s", arguments, r.Structured, err, want)
		}
	}
	r, err := b.execute(t, "math.evaluate", `{"expression":"1/0"}`)
	if err != nil || r.OK || r.Failure.ReasonCode != "tool.invalid_arguments.expression" || text(r) != "column 2: division by zero" {
		t.Errorf("1/0: %+v, %v", r, err)
	}
}

// policy permits loopback servers of a test, which real deployments refuse.
func policy(t *testing.T, patterns ...string) *egress.Policy {
	t.Helper()
	p, err := egress.Parse(patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// records reads the sink of the demo tools.
func records(t *testing.T, data []byte) []builtin.DemoEffect {
	t.Helper()
	var all []builtin.DemoEffect
	for line := range bytes.Lines(data) {
		var e builtin.DemoEffect
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}
