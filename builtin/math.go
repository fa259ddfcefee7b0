package builtin

import (
	"context"
	"errors"

	"github.com/toolbus/toolbus/builtin/internal/calc"
	"github.com/toolbus/toolbus/tool"
)

type mathArgs struct {
	Expression string `json:"expression"`
	Digits     int    `json:"digits"`
}

type mathResult struct {
	Result   string `json:"result"`
	Exact    bool   `json:"exact"`
	Fraction string `json:"fraction,omitempty"`
}

// mathEvaluate computes arithmetic expressions.
func mathEvaluate(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name: "math.evaluate",
		Description: "Evaluates one arithmetic expression, exactly where possible (fractions and integers of any size). " +
			"Operators: + - * / % (remainder with the sign of the divisor) ^ or ** (power, right associative), parentheses. " +
			"Functions: abs sign floor ceil trunc round(x, places) min max sum mean sqrt cbrt pow gcd lcm factorial choose " +
			"exp ln log2 log10 sin cos tan asin acos atan atan2 hypot; angles in radians. Constants: pi e tau phi. " +
			"There are no variables, units or assignments. Use it instead of computing in your head.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"expression": {
					"type": "string", "minLength": 1, "maxLength": 4096,
					"description": "The expression, for example (1 + 2/3)^10 or round(sqrt(2), 4)."
				},
				"digits": {
					"type": "integer", "default": 30, "minimum": 0, "maximum": 1000,
					"description": "Decimal places shown of an exact result that is no integer."
				}
			},
			"required": ["expression"]
		}`),
		OutputSchema: schema(`{
			"type": "object",
			"properties": {
				"result": {"type": "string", "description": "Decimal notation."},
				"exact": {"type": "boolean", "description": "Whether result is the mathematical value, unrounded."},
				"fraction": {"type": "string", "description": "The exact value as a fraction, where result is rounded."}
			},
			"required": ["result", "exact"]
		}`),
		SideEffect: tool.EffectNone, Idempotency: tool.ReadOnly,
		TimeoutSeconds: 10, MaximumOutputBytes: 128 << 10, AllowParallel: true,
	})
	return &simple[mathArgs]{spec: spec, defaults: mathArgs{Digits: 30}, run: func(_ context.Context, a mathArgs, _ *tool.Execution) (tool.Result, error) {
		v, err := calc.Evaluate(a.Expression)
		if e, ok := errors.AsType[*calc.Error](err); ok {
			return fail(tool.FailInvalidArguments, "expression", e.Error()), nil
		}
		if err != nil {
			return tool.Result{}, err
		}
		text, whole := v.Decimal(min(max(a.Digits, 0), 1000))
		r := mathResult{Result: text, Exact: whole}
		if !whole && v.Exact {
			r.Fraction = v.Fraction()
		}
		if !whole {
			text += " (rounded)"
		}
		return succeed(text, r)
	}}
}
