package main

import (
	"context"
	"encoding/json"

	"github.com/toolbus/toolbus/tool"
)

// noop is a tool that gives back what it got and does nothing else. Where it
// claims an effect, the call passes the check before the effect and its watermark.
type noop struct{ spec tool.Spec }

var _ tool.Tool = noop{}

const (
	echoTool  = "bench.echo"
	writeTool = "bench.write"
	domain    = "bench"
)

// tools are one tool without an effect and one that is like it but for the
// effect, which the shipped policy allows to a user.
func tools() []tool.Tool {
	spec := tool.Spec{
		Version: "1", Description: "Gives back the text.",
		InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["text","number"],` +
			`"properties":{"text":{"type":"string","maxLength":1000},"number":{"type":"integer"}}}`),
		Risk: tool.RiskLow, TimeoutSeconds: 30, MaximumOutputBytes: 4096, AllowParallel: true,
		Kind: tool.Capability, TargetKind: tool.InProcess, OutputTrust: tool.InternalTool, Source: tool.Builtin,
	}
	echo, write := spec, spec
	echo.Name, echo.SideEffect, echo.Idempotency = echoTool, tool.EffectNone, tool.ReadOnly
	write.Name, write.SideEffect, write.Idempotency = writeTool, tool.PlatformWrite, tool.Idempotent
	return []tool.Tool{noop{echo}, noop{write}}
}

// Spec gives the declaration.
func (n noop) Spec() tool.Spec { return n.spec }

// Execute gives back the text.
func (noop) Execute(_ context.Context, arguments json.RawMessage, _ *tool.Execution) (tool.Result, error) {
	return tool.Succeed(tool.Text(string(arguments))), nil
}
