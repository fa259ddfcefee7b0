package builtin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/toolbus/toolbus/tool"
)

// simple is a [tool.Tool] whose arguments have the Go type A. The zero A is what the
// schema's defaults are applied to when they were not filled in.
type simple[A any] struct {
	spec     tool.Spec
	defaults A
	run      func(ctx context.Context, a A, exec *tool.Execution) (tool.Result, error)
}

// preparing is a simple tool that is a [tool.Preparer] too.
type preparing[A any] struct {
	simple[A]
	prepare func(ctx context.Context, a A, exec *tool.Execution) error
}

var (
	_ tool.Tool     = (*simple[struct{}])(nil)
	_ tool.Preparer = (*preparing[struct{}])(nil)
)

// Spec gives the declaration.
func (t *simple[A]) Spec() tool.Spec { return t.spec }

// Execute decodes the arguments and runs the tool.
func (t *simple[A]) Execute(ctx context.Context, arguments json.RawMessage, exec *tool.Execution) (tool.Result, error) {
	if err := ctx.Err(); err != nil {
		return tool.Result{}, fmt.Errorf("%s: %w", t.spec.Name, err)
	}
	a := t.defaults
	if err := decode(arguments, &a); err != nil {
		return settle(errArguments)
	}
	result, err := t.run(ctx, a, exec)
	if err != nil {
		return tool.Result{}, fmt.Errorf("%s: %w", t.spec.Name, err)
	}
	return result, nil
}

// Prepare decodes the arguments and prepares the call.
func (t *preparing[A]) Prepare(ctx context.Context, arguments json.RawMessage, exec *tool.Execution) error {
	a := t.defaults
	if err := decode(arguments, &a); err != nil {
		return nil //nolint:nilerr // Execute says it, as a failure of the arguments
	}
	return t.prepare(ctx, a, exec)
}

// decode reads one JSON document and nothing after it.
func decode(arguments json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decode arguments: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("decode arguments: more than one document")
	}
	return nil
}

// declare completes the specification of an in-process builtin.
func (o Options) declare(s tool.Spec) tool.Spec {
	s.Version = orElse(s.Version, "1.0.0")
	s.Kind = tool.Capability
	s.TargetKind = orElse(s.TargetKind, tool.InProcess)
	s.Source = orElse(s.Source, tool.Builtin)
	s.OutputTrust = orElse(s.OutputTrust, tool.InternalTool)
	s.Risk = orElse(s.Risk, tool.RiskLow)
	if o.MaximumOutputBytes > 0 {
		s.MaximumOutputBytes = min(s.MaximumOutputBytes, o.MaximumOutputBytes)
	}
	return s
}

func orElse[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// fail makes a failure. suffix, if any, refines the reason code of the kind. words
// tell both the operator and, as content, the model what is wrong; they are this
// package's own and never hold a foreign text.
func fail(kind tool.FailureKind, suffix, words string) tool.Result {
	r := tool.Fail(kind, words)
	r.Content = []tool.Part{tool.Text(words)}
	if suffix != "" {
		r.Failure.ReasonCode = kind.Code() + "." + suffix
	}
	return r
}

// retryable marks a failure as worth another try.
func retryable(r tool.Result) tool.Result {
	r.Failure.Retryable = true
	return r
}

// tooLarge makes the failure of a source beyond the hard ceiling; parts hold what was
// read before.
func tooLarge(parts ...tool.Part) tool.Result {
	r := fail(tool.FailOutputTooLarge, "", "the source has more than the hard ceiling of the tool")
	if len(parts) > 0 {
		r.Content = parts
	}
	return r
}

// succeed makes a successful result with structured data. v is a type of this
// package; one that does not marshal is a defect.
func succeed(text string, v any) (tool.Result, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return tool.Result{}, fmt.Errorf("encode result: %w", err)
	}
	r := tool.Succeed(tool.Text(text))
	r.Structured = data
	return r, nil
}

// boundary asks, right before an effect, whether the call is still this worker's.
func boundary(ctx context.Context, exec *tool.Execution) error {
	if exec.MarkEffectSent == nil {
		return nil
	}
	if err := exec.MarkEffectSent(ctx); err != nil {
		return fmt.Errorf("effect boundary: %w", err)
	}
	return nil
}

// evidence digests what was observed. Each field is preceded by its length, so that no
// two lists of fields read the same.
func evidence(fields ...string) string {
	h := sha256.New()
	for _, f := range fields {
		_, _ = io.WriteString(h, strconv.Itoa(len(f))+":"+f) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

// schema checks nothing: it only lets a schema be written as an indented literal and
// stored compact.
func schema(literal string) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(literal)); err != nil {
		return json.RawMessage(literal) // registration refuses it and says why
	}
	return b.Bytes()
}
