package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/toolbus/toolbus/tool"
)

type echoArgs struct {
	Text string          `json:"text"`
	Data json.RawMessage `json:"data"`
}

// demoEcho gives back what it got.
func demoEcho(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name:        "demo.echo",
		Description: "Returns the given text and, as structured data, the given object. For trying out a connection; it does nothing else.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"text": {"type": "string", "default": "", "description": "Text to return."},
				"data": {"type": "object", "additionalProperties": true, "description": "Object to return as structured data."}
			}
		}`),
		SideEffect: tool.EffectNone, Idempotency: tool.ReadOnly,
		TimeoutSeconds: 5, MaximumOutputBytes: 1 << 20, AllowParallel: true,
	})
	return &simple[echoArgs]{spec: spec, run: func(_ context.Context, a echoArgs, _ *tool.Execution) (tool.Result, error) {
		r := tool.Succeed(tool.Text(a.Text))
		r.Structured = a.Data
		return r, nil
	}}
}

type slowArgs struct {
	Seconds float64 `json:"seconds"`
}

// demoSlow takes its time.
func demoSlow(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name:        "demo.slow",
		Description: "Waits the given number of seconds and returns. For trying out deadlines, cancellation and parallel calls.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"seconds": {"type": "number", "default": 1, "minimum": 0, "maximum": 600, "description": "How long to wait."}
			}
		}`),
		SideEffect: tool.EffectNone, Idempotency: tool.ReadOnly,
		TimeoutSeconds: 630, MaximumOutputBytes: 4096, AllowParallel: true,
	})
	return &simple[slowArgs]{spec: spec, defaults: slowArgs{Seconds: 1}, run: func(ctx context.Context, a slowArgs, _ *tool.Execution) (tool.Result, error) {
		if err := wait(ctx, a.Seconds); err != nil {
			return tool.Result{}, err
		}
		return tool.Succeed(tool.Text(fmt.Sprintf("waited %g seconds", a.Seconds))), nil
	}}
}

// wait returns after the given number of seconds, at most 600, or when ctx ends.
func wait(ctx context.Context, seconds float64) error {
	if seconds <= 0 {
		return nil
	}
	timer := time.NewTimer(time.Duration(min(seconds, 600) * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}
}

type flakyArgs struct {
	Times int `json:"times"`
}

// demoFlaky fails by the number of the attempt, and so needs no memory.
func demoFlaky(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name: "demo.flaky",
		Description: "Fails on the first attempts of a call with a retryable error, and succeeds from then on. For trying out retries: the attempt " +
			"number rises when the same call is executed again, not when it is proposed anew.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"times": {"type": "integer", "default": 1, "minimum": 0, "maximum": 100, "description": "How many attempts fail."}
			}
		}`),
		SideEffect: tool.EffectNone, Idempotency: tool.ReadOnly,
		TimeoutSeconds: 5, MaximumOutputBytes: 4096, AllowParallel: true,
	})
	return &simple[flakyArgs]{spec: spec, defaults: flakyArgs{Times: 1}, run: func(_ context.Context, a flakyArgs, exec *tool.Execution) (tool.Result, error) {
		if exec.AttemptNumber <= a.Times {
			words := fmt.Sprintf("attempt %d of %d that fail", exec.AttemptNumber, a.Times)
			return retryable(fail(tool.FailUpstreamError, "flaky", words)), nil
		}
		return tool.Succeed(tool.Text(fmt.Sprintf("attempt %d succeeded", exec.AttemptNumber))), nil
	}}
}

type largeArgs struct {
	Bytes int64 `json:"bytes"`
}

// demoLargeOutput has more to say than fits.
func demoLargeOutput(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name: "demo.large_output",
		Description: "Returns the given number of bytes of numbered lines, the same for the same number. For trying out excerpts, artifacts and " +
			"the hard ceiling (256 KiB), beyond which it fails with what fitted.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"bytes": {"type": "integer", "default": 10000, "minimum": 0, "maximum": 1073741824, "description": "How much to return."}
			}
		}`),
		SideEffect: tool.EffectNone, Idempotency: tool.ReadOnly,
		TimeoutSeconds: 30, MaximumOutputBytes: 64 << 10, AllowParallel: true,
	})
	return &simple[largeArgs]{spec: spec, defaults: largeArgs{Bytes: 10_000}, run: func(_ context.Context, a largeArgs, exec *tool.Execution) (tool.Result, error) {
		var b strings.Builder
		_, err := io.Copy(&b, exec.Bounded(io.LimitReader(&numberedLines{}, a.Bytes)))
		switch {
		case errors.Is(err, tool.ErrOutputTooLarge):
			return tooLarge(tool.Text(b.String())), nil
		case err != nil:
			return tool.Result{}, err
		}
		return tool.Succeed(tool.Text(b.String())), nil
	}}
}

// numberedLines is an endless text that can be checked at any place.
type numberedLines struct {
	next int
	rest string
}

// Read gives at most one line.
func (l *numberedLines) Read(p []byte) (int, error) {
	if l.rest == "" {
		l.next++
		l.rest = fmt.Sprintf("line %010d of the large output\n", l.next)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
