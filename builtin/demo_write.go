package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"time"

	"github.com/toolbus/toolbus/internal/egress"
	"github.com/toolbus/toolbus/tool"
)

// DemoSink is the outside world of the demo tools that write: a recorder that no part
// of toolbus reads. With neither field set such a call is unavailable.
type DemoSink struct {
	// File is appended one line of JSON per effect, in a single write, so that any
	// number of processes may share it. It is made when missing.
	File string
	// URL is posted the same JSON per effect, with the idempotency key in the header
	// Idempotency-Key; any status below 300 is an acceptance. [Options.Egress] applies.
	URL string
}

// DemoEffect is what a sink receives, once for every time the effect happened.
type DemoEffect struct {
	Tool           string          `json:"tool"`
	IdempotencyKey string          `json:"idempotency_key"`
	Attempt        int             `json:"attempt"`
	InvocationID   tool.ID         `json:"invocation_id"`
	Payload        json.RawMessage `json:"payload"`
	Time           time.Time       `json:"time"`
}

type demoWriteArgs struct {
	Payload            json.RawMessage `json:"payload"`
	DelayBeforeSeconds float64         `json:"delay_before_seconds"`
	DelayAfterSeconds  float64         `json:"delay_after_seconds"`
}

// DemoWrite makes a tool that has one visible effect, in [Options.Demo], with a pause
// before and after it in which a process can be killed. demo.external_write of [All] is
// one; test systems register others, such as demo.write_idempotent, to see each class of
// idempotency recovered. name is a registry name of the demo domain, effect and class
// any of their sets; the declaration is as true as the caller makes it, since the
// effect is the same under every class.
func DemoWrite(o Options, name string, effect tool.SideEffect, class tool.Idempotency) tool.Tool {
	o = o.withDefaults()
	spec := o.declare(tool.Spec{
		Name: name,
		Description: "Hands the payload to the demonstration sink that the operator configured, exactly one record per execution. For trying out " +
			"approvals, recovery and deduplication; the pauses leave time to kill something in the middle.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"payload": {"default": null, "description": "Anything; it is recorded as it is."},
				"delay_before_seconds": {"type": "number", "default": 0, "minimum": 0, "maximum": 60, "description": "Pause before the effect."},
				"delay_after_seconds": {"type": "number", "default": 0, "minimum": 0, "maximum": 60, "description": "Pause between the effect and the result."}
			}
		}`),
		OutputSchema: schema(`{
			"type": "object",
			"properties": {
				"idempotency_key": {"type": "string"},
				"attempt": {"type": "integer"}
			},
			"required": ["idempotency_key", "attempt"]
		}`),
		SideEffect: effect, Idempotency: class, Risk: tool.RiskMedium,
		TimeoutSeconds: 150, MaximumOutputBytes: 4096,
	})
	w := &demoWriter{
		name: name, sink: o.Demo, now: o.Now,
		client: &http.Client{Transport: o.transport(), CheckRedirect: egress.LimitRedirects(0)},
	}
	return &preparing[demoWriteArgs]{simple: simple[demoWriteArgs]{spec: spec, run: w.run}, prepare: w.prepare}
}

type demoWriter struct {
	name   string
	sink   DemoSink
	now    func() time.Time
	client *http.Client
}

// prepare says before the watermark that there is nowhere to write.
func (w *demoWriter) prepare(context.Context, demoWriteArgs, *tool.Execution) error {
	if w.sink == (DemoSink{}) {
		return &tool.Unavailable{Code: "tool.server_unreachable.demo_sink", Detail: "no demo sink is configured"}
	}
	return nil
}

func (w *demoWriter) run(ctx context.Context, a demoWriteArgs, exec *tool.Execution) (tool.Result, error) {
	if w.sink == (DemoSink{}) {
		r := fail(tool.FailNotFound, "demo_sink", "no demo sink is configured")
		r.EffectNotApplied = true
		return r, nil
	}
	if err := wait(ctx, min(a.DelayBeforeSeconds, 60)); err != nil {
		return tool.Result{}, err
	}
	if err := boundary(ctx, exec); err != nil {
		return tool.Result{}, err
	}
	record, err := json.Marshal(DemoEffect{
		Tool: w.name, IdempotencyKey: exec.IdempotencyKey, Attempt: exec.AttemptNumber,
		InvocationID: exec.InvocationID, Payload: a.Payload, Time: w.now().UTC(),
	})
	if err != nil {
		return tool.Result{}, fmt.Errorf("encode the record: %w", err)
	}
	if w.sink.File != "" {
		if err := appendLine(w.sink.File, record); err != nil {
			return tool.Result{}, err
		}
	}
	if w.sink.URL != "" {
		if failed, err := w.post(ctx, exec, record); err != nil || failed != nil {
			return orEmpty(failed), err
		}
	}
	if err := wait(ctx, min(a.DelayAfterSeconds, 60)); err != nil {
		return tool.Result{}, err
	}
	return succeed("recorded", struct {
		IdempotencyKey string `json:"idempotency_key"`
		Attempt        int    `json:"attempt"`
	}{exec.IdempotencyKey, exec.AttemptNumber})
}

func orEmpty(r *tool.Result) tool.Result {
	if r == nil {
		return tool.Result{}
	}
	return *r
}

// appendLine adds one line to a file that others append to as well.
func appendLine(name string, line []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the demo sink: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write to the demo sink: %w", err)
	}
	return nil
}

// post sends the record. A failure before there was a connection is proof that nothing
// was applied; later ones prove nothing.
func (w *demoWriter) post(ctx context.Context, exec *tool.Execution, record []byte) (*tool.Result, error) {
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	request, err := http.NewRequestWithContext(traced, http.MethodPost, w.sink.URL, bytes.NewReader(record))
	if err != nil {
		return nil, errors.New("the URL of the demo sink is malformed")
	}
	request.GetBody = nil // nothing may send it a second time
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", exec.IdempotencyKey)
	response, err := w.client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("interrupted: %w", ctx.Err())
		}
		r := requestFailure(err)
		r.EffectNotApplied = !connected.Load()
		return &r, nil
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < 300 {
		return nil, nil //nolint:nilnil // neither failed nor broken
	}
	said, _ := io.ReadAll(io.LimitReader(response.Body, maximumExternalText))
	r := statusFailure(response.StatusCode, string(said))
	return &r, nil
}
