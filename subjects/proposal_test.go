package subjects_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

const session = "0193a1b2-c3d4-7000-8000-000000000003"

// proposalWith gives a valid proposal with text in place of its calls.
func proposalWith(head, calls string) string {
	return `{"v":1,"session_id":"` + session + `","run_id":"` + runText + `","step_number":7` + head + `,"calls":` + calls + `}`
}

func callWith(members string) string { return `[{"call_id":"c1","name":"math.add"` + members + `}]` }

func manyCalls(n int) string {
	var calls []string
	for i := range n {
		calls = append(calls, fmt.Sprintf(`{"call_id":"c%d","name":"math.add","arguments":{}}`, i))
	}
	return "[" + strings.Join(calls, ",") + "]"
}

func TestProposalDecodes(t *testing.T) {
	t.Parallel()
	raw := `{ "b" : 1.0, "a":"<\u00e9>" , "d": {"x":[1,2,{"y":"}"}]}}`
	text := proposalWith(`,"n":2,"deadline_at":"2026-12-01T10:00:00.25Z"`,
		callWith(`,"arguments":`+raw+`,"argument_trust":{"a":"user","d":"internal_tool"}`))
	got, err := subjects.ProposalDecoder{Run: runID(t)}.Decode([]byte(" " + text + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	sid, err := tool.ParseID(session)
	if err != nil {
		t.Fatal(err)
	}
	want := subjects.Proposal{
		SessionID: sid, RunID: runID(t), StepNumber: 7, N: 2, OriginTrust: tool.ExternalUntrusted,
		DeadlineAt: time.Date(2026, 12, 1, 10, 0, 0, 250_000_000, time.UTC),
		Calls: []subjects.Call{{
			CallID: "c1", Name: "math.add", Arguments: json.RawMessage(raw),
			ArgumentTrust: map[string]tool.Trust{"a": tool.User, "d": tool.InternalTool},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if full, err := (subjects.ProposalDecoder{}).Decode([]byte(proposalWith("", manyCalls(128)))); err != nil || len(full.Calls) != 128 {
		t.Errorf("128 calls: %v", err)
	}
}

func TestProposalRefused(t *testing.T) {
	t.Parallel()
	good := callWith(`,"arguments":{}`)
	for name, c := range map[string]struct{ text, field string }{
		"syntax":            {`{"v":1`, ""},
		"nothing":           {``, ""},
		"two values":        {proposalWith("", good) + "{}", ""},
		"no object":         {`[]`, ""},
		"not UTF-8":         {proposalWith("", callWith(`,"arguments":{"a":"`+"\xff"+`"}`)), ""},
		"version":           {strings.Replace(proposalWith("", good), `"v":1`, `"v":2`, 1), "v"},
		"version as text":   {strings.Replace(proposalWith("", good), `"v":1`, `"v":"1"`, 1), "v"},
		"no version":        {strings.Replace(proposalWith("", good), `"v":1,`, ``, 1), "v"},
		"unknown member":    {proposalWith(`,"extra":1`, good), ""},
		"other case":        {strings.Replace(proposalWith("", good), `"v"`, `"V"`, 1), ""},
		"twice":             {proposalWith(`,"step_number":8`, good), "step_number"},
		"null":              {proposalWith(`,"deadline_at":null`, good), "deadline_at"},
		"upper-case run":    {strings.Replace(proposalWith("", good), runText, strings.ToUpper(runText), 1), "run_id"},
		"zero session":      {strings.Replace(proposalWith("", good), session, "00000000-0000-0000-0000-000000000000", 1), "session_id"},
		"zero run":          {strings.Replace(proposalWith("", good), runText, "00000000-0000-0000-0000-000000000000", 1), "run_id"},
		"foreign run":       {strings.Replace(proposalWith("", good), runText, session, 1), "run_id"},
		"negative step":     {strings.Replace(proposalWith("", good), `:7`, `:-1`, 1), "step_number"},
		"huge step":         {strings.Replace(proposalWith("", good), `:7`, `:2147483648`, 1), "step_number"},
		"fraction":          {strings.Replace(proposalWith("", good), `:7`, `:7.0`, 1), "step_number"},
		"negative n":        {proposalWith(`,"n":-1`, good), "n"},
		"local time":        {proposalWith(`,"deadline_at":"2026-12-01T10:00:00+02:00"`, good), "deadline_at"},
		"no time":           {proposalWith(`,"deadline_at":"tomorrow"`, good), "deadline_at"},
		"too much trust":    {proposalWith(`,"origin_trust":"platform"`, good), "origin_trust"},
		"invented trust":    {proposalWith(`,"origin_trust":"root"`, good), "origin_trust"},
		"no calls":          {proposalWith("", `[]`), "calls"},
		"calls no array":    {proposalWith("", `{}`), "calls"},
		"129 calls":         {proposalWith("", manyCalls(129)), "calls"},
		"same call twice":   {proposalWith("", `[`+good[1:len(good)-1]+`,`+good[1:]), "calls[1].call_id"},
		"empty call id":     {proposalWith("", strings.Replace(good, "c1", "", 1)), "calls[0].call_id"},
		"long call id":      {proposalWith("", strings.Replace(good, "c1", strings.Repeat("c", 129), 1)), "calls[0].call_id"},
		"space in call id":  {proposalWith("", strings.Replace(good, "c1", "c 1", 1)), "calls[0].call_id"},
		"bridge call id":    {proposalWith("", strings.Replace(good, "c1", "bridge:1", 1)), "calls[0].call_id"},
		"name":              {proposalWith("", strings.Replace(good, "math.add", "rm -rf", 1)), "calls[0].name"},
		"no arguments":      {proposalWith("", callWith("")), "calls[0].arguments"},
		"null arguments":    {proposalWith("", callWith(`,"arguments":null`)), "calls[0].arguments"},
		"array arguments":   {proposalWith("", callWith(`,"arguments":[]`)), "calls[0].arguments"},
		"text arguments":    {proposalWith("", callWith(`,"arguments":"{}"`)), "calls[0].arguments"},
		"trust of nothing":  {proposalWith("", callWith(`,"arguments":{"a":{"b":1}},"argument_trust":{"b":"user"}`)), "calls[0].argument_trust"},
		"argument trust up": {proposalWith("", callWith(`,"arguments":{"a":1},"argument_trust":{"a":"trusted_configuration"}`)), "calls[0].argument_trust"},
		"argument trust no": {proposalWith("", callWith(`,"arguments":{"a":1},"argument_trust":{"a":"x"}`)), "calls[0].argument_trust"},
		"unknown in call":   {proposalWith("", callWith(`,"arguments":{},"x":1`)), "calls[0]"},
		"too large":         {proposalWith("", callWith(`,"arguments":{"a":"`+strings.Repeat("x", subjects.MaxProposalBytes)+`"}`)), ""},
	} {
		_, err := subjects.ProposalDecoder{Run: runID(t)}.Decode([]byte(c.text))
		var field *subjects.FieldError
		if !errors.As(err, &field) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if field.Field != c.field || field.Rule == "" {
			t.Errorf("%s: blames %q (%s), want %q", name, field.Field, field.Rule, c.field)
		}
	}
}

func TestProposalPrivileges(t *testing.T) {
	t.Parallel()
	text := []byte(proposalWith(`,"origin_trust":"trusted_configuration"`,
		strings.Replace(callWith(`,"arguments":{}`), "c1", "bridge:7.1", 1)))
	if _, err := (subjects.ProposalDecoder{MaxTrust: tool.TrustedConfiguration, AllowBridge: true}).Decode(text); err != nil {
		t.Error(err)
	}
	if _, err := (subjects.ProposalDecoder{MaxTrust: tool.TrustedConfiguration}).Decode(text); err == nil {
		t.Error("bridge call id without the privilege")
	}
	if _, err := (subjects.ProposalDecoder{MaxTrust: tool.InternalTool, AllowBridge: true}).Decode(text); err == nil {
		t.Error("more trust than the ceiling")
	}
}

func TestProposalEncodes(t *testing.T) {
	t.Parallel()
	var d subjects.ProposalDecoder
	p, err := d.Decode(read(t, "testdata/golden/proposal.json"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := d.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	p.Calls[0].Arguments = nil // only the space in it may differ
	again.Calls[0].Arguments = nil
	if diff := cmp.Diff(p, again); diff != "" {
		t.Error(diff)
	}
	p.Calls[1].Name = ""
	if _, err := d.Encode(p); err == nil {
		t.Error("encoded a call without name or arguments")
	}
}

func TestSketch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want subjects.Sketch
	}{
		"whole":          {proposalWith(`,"n":3`, manyCalls(2)), subjects.Sketch{RunID: runID(t), StepNumber: 7, N: 3, CallIDs: []string{"c0", "c1"}}},
		"cut":            {proposalWith(`,"n":3`, manyCalls(2))[:190], subjects.Sketch{RunID: runID(t), StepNumber: 7, N: 3, CallIDs: []string{"c0"}}},
		"bad call id":    {`{"calls":[{"call_id":"a b"},{"call_id":4},{"call_id":"ok"}]}`, subjects.Sketch{CallIDs: []string{"ok"}}},
		"too many calls": {proposalWith("", manyCalls(500)), subjects.Sketch{RunID: runID(t), StepNumber: 7, CallIDs: ids(128)}},
		"no object":      {`[1,2]`, subjects.Sketch{}},
		"nothing":        {``, subjects.Sketch{}},
		"nonsense":       {`{]:[:::`, subjects.Sketch{}},
		"bad numbers":    {`{"step_number":-4,"n":99999999999}`, subjects.Sketch{}},
	} {
		if diff := cmp.Diff(c.want, subjects.SketchProposal([]byte(c.text))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func ids(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("c%d", i)
	}
	return out
}

func FuzzProposal(f *testing.F) {
	f.Add(read(f, "testdata/golden/proposal.json"))
	f.Add([]byte(proposalWith("", callWith(`,"arguments":{"a":"\ud800"}`))))
	f.Add([]byte(proposalWith("", callWith(`,"arguments":{"\u0000":1}`))))
	f.Add([]byte(`{"v":1,"calls":[[[[{"call_id":`))
	f.Add([]byte(`{"calls":[:`))
	f.Add([]byte("{\"calls\":[\x00,,]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		sketch := subjects.SketchProposal(data)
		p, err := subjects.ProposalDecoder{}.Decode(data)
		if err != nil {
			var field *subjects.FieldError
			if !errors.As(err, &field) {
				t.Fatalf("no FieldError: %v", err)
			}
			return
		}
		if sketch.RunID != p.RunID || sketch.StepNumber != p.StepNumber || sketch.N != p.N || len(sketch.CallIDs) != len(p.Calls) {
			t.Errorf("sketch %+v of %+v", sketch, p)
		}
		for _, c := range p.Calls {
			if !json.Valid(c.Arguments) || !strings.Contains(string(data), string(c.Arguments)) {
				t.Errorf("arguments were touched: %s", c.Arguments)
			}
		}
		again, err := subjects.ProposalDecoder{}.Encode(p)
		if err != nil {
			t.Fatalf("decoded, but does not encode: %v", err)
		}
		if _, err := (subjects.ProposalDecoder{}).Decode(again); err != nil {
			t.Errorf("encoded, but does not decode: %v", err)
		}
	})
}

func BenchmarkProposalDecode(b *testing.B) {
	data := []byte(proposalWith("", callWith(`,"arguments":{"path":"notes.md","text":"`+strings.Repeat("hello ", 40)+`"},"argument_trust":{"path":"user"}`)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (subjects.ProposalDecoder{}).Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
