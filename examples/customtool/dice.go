package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/toolbus/toolbus/tool"
)

// dice implements [tool.Tool]. It may be called by many workers at once, so what
// it holds is safe for concurrent use.
type dice struct{ roll func(sides int) int }

func newDice() *dice { return &dice{roll: rand.IntN} }

// Spec declares the tool. The schema is closed and its defaults are filled in
// before the call is approved and run: Execute gets arguments that were checked.
//
// The classes are promises. A tool that changes something outside says
// [tool.ExternalWrite]; unless a second execution does no harm it is
// [tool.NonIdempotent], and a crash in the middle then ends as uncertain. Such a
// tool passes [tool.Execution.IdempotencyKey] on where the other side knows one.
func (d *dice) Spec() tool.Spec {
	return tool.Spec{
		Name: "dice.roll", Version: "1.0.0", Description: "Rolls dice and gives each result and the sum.",
		InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"dice": {"type": "integer", "default": 1, "minimum": 1, "maximum": 100, "description": "How many dice."},
				"sides": {"type": "integer", "default": 6, "minimum": 2, "maximum": 1000, "description": "Sides of each."}
			},
			"additionalProperties": false
		}`),
		OutputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"rolls": {"type": "array", "items": {"type": "integer"}},
				"sum": {"type": "integer"}
			},
			"required": ["rolls", "sum"]
		}`),
		Kind: tool.Capability, Source: tool.Builtin, TargetKind: tool.InProcess, OutputTrust: tool.InternalTool,
		SideEffect: tool.EffectNone, Risk: tool.RiskLow, Idempotency: tool.ReadOnly,
		TimeoutSeconds: 5, MaximumOutputBytes: 4096, AllowParallel: true,
	}
}

// Execute rolls. An error would be a defect of the tool; what the world does
// wrong is a result that says so.
func (d *dice) Execute(_ context.Context, arguments json.RawMessage, _ *tool.Execution) (tool.Result, error) {
	var a struct {
		Dice  int `json:"dice"`
		Sides int `json:"sides"`
	}
	if err := json.Unmarshal(arguments, &a); err != nil {
		return tool.Result{}, fmt.Errorf("arguments: %w", err)
	}
	out := struct {
		Rolls []int `json:"rolls"`
		Sum   int   `json:"sum"`
	}{Rolls: make([]int, a.Dice)}
	for i := range out.Rolls {
		out.Rolls[i] = d.roll(a.Sides) + 1
		out.Sum += out.Rolls[i]
	}
	structured, err := json.Marshal(out)
	if err != nil {
		return tool.Result{}, fmt.Errorf("result: %w", err)
	}
	result := tool.Succeed(tool.Text(fmt.Sprintf("%v, sum %d", out.Rolls, out.Sum)))
	result.Structured = structured
	return result, nil
}
