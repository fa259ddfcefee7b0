package outcome

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/tool"
)

func TestConcludeSaysNoMoreThanTheObject(t *testing.T) {
	t.Parallel()
	table := load(t)
	for _, status := range []tool.OutcomeStatus{
		tool.OutcomeDenied, tool.OutcomeFailed, tool.OutcomeUnavailable, tool.OutcomeUncertain,
	} {
		var want []string
		if status == tool.OutcomeUncertain {
			want = []string{uncertainNote}
		}
		item := Conclude(table.Object(status, "demo.external_write", ""))
		if item.Trust != tool.Platform || item.Outcome.Status != status {
			t.Errorf("%s: %+v", status, item)
		}
		if diff := cmp.Diff(want, texts(item.Content)); diff != "" {
			t.Errorf("%s:\n%s", status, diff)
		}
	}
}

func TestItemJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(Item{Trust: tool.InternalTool})
	if want := `{"trust":"internal_tool","content":[],"structured":null,"outcome":null}`; err != nil || string(got) != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
	got, err = json.Marshal(Item{Trust: tool.InternalTool, Structured: json.RawMessage("{broken")})
	if err != nil || !strings.Contains(string(got), `"structured":null`) {
		t.Errorf("broken data: %s (%v)", got, err)
	}
}

func TestInvalidArguments(t *testing.T) {
	t.Parallel()
	violations := []Violation{{"/path", "type: string"}, {"", "required:\n \"text\""}}
	schema := json.RawMessage(`{ "type": "object" }`)
	object := load(t).Object(tool.OutcomeFailed, "workspace.read_text", CodeArgumentsInvalid)

	got, err := load(t).InvalidArguments(builtinSpec(), violations, nil, nil)
	want := Item{
		Trust: tool.Platform, Outcome: &object,
		Content: []tool.Part{tool.Text("/path: type: string\n/: required: \"text\"")},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("direct call (%v):\n%s", err, diff)
	}

	got, err = load(t).InvalidArguments(builtinSpec(), violations, schema, nil)
	want.Content = append(want.Content, tool.Text(`{"type":"object"}`))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("through tool.call (%v):\n%s", err, diff)
	}

	got, err = load(t).InvalidArguments(remoteSpec(), violations, schema, counter())
	if err != nil || got.Trust != tool.ExternalUntrusted || len(got.Content) != 2 {
		t.Fatalf("remote tool: %+v (%v)", got, err)
	}
	for i, p := range got.Content {
		bare, envelopes := strip(t, p.Text)
		if envelopes != 1 || bare != want.Content[i].Text {
			t.Errorf("remote tool: part %q", p.Text)
		}
	}
}

func TestInvalidArgumentsAreBounded(t *testing.T) {
	t.Parallel()
	violations := make([]Violation, 20)
	for i := range violations {
		violations[i] = Violation{Path: fmt.Sprintf("/%d/%s", i, strings.Repeat("é", 400)), Rule: "type"}
	}
	got, err := load(t).InvalidArguments(builtinSpec(), violations, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got.Content[0].Text, "\n")
	if len(lines) != 17 || lines[16] != "and 4 more" || len(lines[0]) > 256 || len(lines[0]) < 250 {
		t.Errorf("%d lines, the first of %d bytes, the last %q", len(lines), len(lines[0]), lines[len(lines)-1])
	}
}

func TestInvalidArgumentsFaults(t *testing.T) {
	t.Parallel()
	if _, err := load(t).InvalidArguments(builtinSpec(), nil, json.RawMessage("{"), nil); err == nil {
		t.Error("a broken schema is an error")
	}
	if _, err := load(t).InvalidArguments(remoteSpec(), nil, nil, func() string { return "" }); err == nil {
		t.Error("a broken nonce is an error")
	}
}
