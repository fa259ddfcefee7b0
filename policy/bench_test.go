package policy

import (
	"strings"
	"testing"

	"github.com/toolbus/toolbus/tool"
)

func BenchmarkEvaluate(b *testing.B) {
	for _, bench := range []struct {
		name   string
		effect tool.SideEffect
		rules  []string
	}{
		{"first_effect_row", tool.EffectNone, nil},
		{"last_row", tool.ExternalWrite, nil},
		{"argument_rule", tool.ExternalWrite, []string{"no: arguments.stage == 'production' -> deny"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			p := profileWith(b, bench.rules...)
			in := write(`{"stage":"test","text":"some words","n":3}`)
			in.Spec.SideEffect = bench.effect
			b.ReportAllocs()
			for b.Loop() {
				if p.Evaluate(b.Context(), in).Effect == Deny {
					b.Fatal("denied")
				}
			}
		})
	}
}

func BenchmarkAdmits(b *testing.B) {
	p := shippedProfile(b)
	spec := write(`{}`).Spec
	for b.Loop() {
		if !p.Admits(spec) {
			b.Fatal("not admitted")
		}
	}
}

// BenchmarkCostLimit shows how long the most expensive permitted condition takes.
func BenchmarkCostLimit(b *testing.B) {
	p := profileWith(b, "no: arguments.l.all(x, arguments.l.all(y, x == y)) -> allow")
	in := write(`{"l":[` + strings.TrimSuffix(strings.Repeat("1,", 5_000), ",") + `]}`)
	for b.Loop() {
		if p.Evaluate(b.Context(), in).Effect != Deny {
			b.Fatal("not cut")
		}
	}
}

// BenchmarkCompileStanding shows what a standing authorization costs to load.
func BenchmarkCompileStanding(b *testing.B) {
	s := Standing{Principal: "ada", Tool: "mcp.crm.*", Condition: "arguments.n < 10"}
	for b.Loop() {
		if _, err := CompileStanding(s); err != nil {
			b.Fatal(err)
		}
	}
}
