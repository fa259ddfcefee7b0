package gates

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/test/systemtest"
	"github.com/toolbus/toolbus/tool"
)

// hostile does what its argument says, the worst a tool can do.
type hostile struct{ declared }

// Execute implements [tool.Tool].
func (h *hostile) Execute(_ context.Context, arguments json.RawMessage, _ *tool.Execution) (tool.Result, error) {
	var a struct{ How string }
	if err := json.Unmarshal(arguments, &a); err != nil {
		return tool.Result{}, err
	}
	structured := func(text string) (tool.Result, error) {
		r := tool.Succeed(tool.Text("here"))
		r.Structured = json.RawMessage(text)
		return r, nil
	}
	switch a.How {
	case "panics":
		panic("\x00\xff")
	case "panics in the runtime":
		return tool.Succeed(tool.Text(strings.Fields(a.How)[99])), nil
	case "leaves":
		runtime.Goexit()
	case "errs":
		return tool.Result{}, errors.New("\x00\xff" + strings.Repeat("e", 1<<20))
	case "returns neither":
		return tool.Result{}, nil
	case "returns both":
		r := tool.Succeed(tool.Text("fine"))
		r.Failure = &tool.Failure{Kind: tool.FailTransport}
		return r, nil
	case "returns 10 MiB":
		return tool.Succeed(tool.Text(strings.Repeat("x", 10<<20))), nil
	case "returns many parts":
		return tool.Succeed(slices.Repeat([]tool.Part{tool.Text("x")}, 10_000)...), nil
	case "NUL":
		return tool.Succeed(tool.Text("a\x00b")), nil
	case "invalid UTF-8":
		return tool.Succeed(tool.Text("a\xff\xfe\xed\xa0\x80b")), nil
	case "structured NUL":
		return structured(`{"a":"\u0000"}`)
	case "structured lone surrogate":
		return structured(`{"\ud800":1}`)
	case "structured invalid UTF-8":
		return structured("{\"a\":\"\xff\"}")
	case "structured 64 levels":
		return structured(nested(64))
	case "structured 65 levels":
		return structured(nested(65))
	case "structured 100000 levels":
		return structured(nested(100_000))
	case "structured no JSON":
		return structured(`{"a":`)
	case "structured number":
		return structured(`1e999999999`)
	case "claims trust":
		r := tool.Succeed(tool.Text("believe me"))
		r.OutputTrust = tool.Platform
		return r, nil
	case "invents trust":
		r := tool.Succeed(tool.Text("believe me"))
		r.OutputTrust = "divine\x00"
		return r, nil
	case "evidence":
		r := tool.Succeed(tool.Text("seen"))
		r.Evidence = "\x00\xff" + strings.Repeat("e", 1<<20)
		return r, nil
	case "forged artifact":
		r := tool.Succeed(tool.ArtifactPart(tool.ArtifactRef{MediaType: "\x00\xff", Bytes: -1, SHA256: strings.Repeat("\xff", 100)}))
		r.Artifacts = []tool.ArtifactRef{{MediaType: "\x00"}}
		return r, nil
	case "odd part":
		return tool.Succeed(tool.Part{Type: "image\x00"}, tool.Part{Type: tool.PartArtifact}), nil
	case "fails oddly":
		return tool.Result{Failure: &tool.Failure{
			Kind: "nonsense\xff", ReasonCode: "\x00" + strings.Repeat("c", 1<<20), Detail: "\x00\xff", ExternalText: "\x00\xff" + strings.Repeat("t", 1<<20),
		}}, nil
	case "fails as another":
		return tool.Result{Failure: &tool.Failure{Kind: tool.FailTransport, ReasonCode: "policy.matrix.external_write"}}, nil
	}
	return tool.Succeed(tool.Text("done")), nil
}

func hostileTools(o *app.Options) {
	for name, effect := range map[string]tool.SideEffect{"demo.hostile": tool.EffectNone, "demo.hostile_write": tool.WorkspaceWrite} {
		spec := declaration(tool.Builtin, func(s *tool.Spec) {
			s.Name, s.SideEffect = name, effect
			if effect != tool.EffectNone {
				s.Idempotency = tool.NonIdempotent
			}
			s.InputSchema = json.RawMessage(`{"type":"object","properties":{"how":{"type":"string"}}}`)
		})
		o.Tools = append(o.Tools, &hostile{declared: declared{spec: spec}})
	}
}

// gate21Tool calls the hostile tool every way, once where nothing can have
// happened and once where something may have: a tool that broke past the
// watermark leaves the call uncertain.
func gate21Tool(t *testing.T) {
	t.Parallel()
	b := newBadInput(t, hostileTools)
	t.Run("ways", func(t *testing.T) { gate21Ways(t, b, gate21Hostile) })
	b.alive(t)
	// One that leaves takes its worker along: recovery has the last word.
	b = feed(t, systemtest.New(t), hostileTools)
	t.Run("leaving", func(t *testing.T) {
		gate21Ways(t, b, map[string][2]string{"leaves": {"tool.internal", "tool.outcome_unknown"}})
	})
	b.alive(t)
}

// gate21Hostile are the ways and their reason codes, - for success: where
// nothing can have happened, and where something may have.
var gate21Hostile = map[string][2]string{
	"panics":                    {"tool.internal", "tool.outcome_unknown"},
	"panics in the runtime":     {"tool.internal", "tool.outcome_unknown"},
	"errs":                      {"tool.internal", "tool.outcome_unknown"},
	"returns neither":           {"tool.internal", "tool.outcome_unknown"},
	"returns both":              {"tool.internal", "tool.outcome_unknown"},
	"returns 10 MiB":            {"tool.output_too_large", "tool.output_too_large"},
	"returns many parts":        {"tool.output_too_large", "tool.output_too_large"},
	"NUL":                       {"-", "-"},
	"invalid UTF-8":             {"-", "-"},
	"structured NUL":            {"tool.output_invalid", "tool.output_invalid"},
	"structured lone surrogate": {"tool.output_invalid", "tool.output_invalid"},
	"structured invalid UTF-8":  {"tool.output_invalid", "tool.output_invalid"},
	"structured 64 levels":      {"-", "-"},
	"structured 65 levels":      {"tool.output_invalid", "tool.output_invalid"},
	"structured 100000 levels":  {"tool.output_invalid", "tool.output_invalid"},
	"structured no JSON":        {"tool.output_invalid", "tool.output_invalid"},
	"structured number":         {"tool.output_invalid", "tool.output_invalid"},
	"claims trust":              {"-", "-"},
	"invents trust":             {"-", "-"},
	"evidence":                  {"-", "-"},
	"forged artifact":           {"-", "-"},
	"odd part":                  {"-", "-"},
	"fails oddly":               {"tool.internal", "tool.internal"},
	"fails as another":          {"tool.transport", "tool.transport"},
}

func gate21Ways(t *testing.T, b *badInput, ways map[string][2]string) {
	t.Helper()
	for how, want := range ways {
		for i, name := range []string{"demo.hostile", "demo.hostile_write"} {
			t.Run(how+" "+name, func(t *testing.T) {
				t.Parallel()
				r := b.session.NewRun(t)
				r.Propose(t, 1, systemtest.Call("c1", name, `{"how":"`+how+`"}`))
				o := r.Outcome(t, 1, "c1")
				reason := "-"
				if o.Item.Outcome != nil {
					reason = o.Item.Outcome.ReasonCode
				}
				if reason != want[i] {
					t.Errorf("%s %s, want %s", o.Status, reason, want[i])
				}
				if o.Status == tool.OutcomeSucceeded && o.Item.Trust.Rank() > tool.InternalTool.Rank() {
					t.Errorf("trust %s", o.Item.Trust)
				}
			})
		}
	}
}
