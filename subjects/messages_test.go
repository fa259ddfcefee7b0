package subjects_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

func kinds() []subjects.CommandKind {
	return append(subjects.RuntimeCommands(), subjects.OperatorCommands()...)
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds() {
		golden := read(t, "testdata/golden/command_"+string(kind)+".json")
		c, err := subjects.DecodeCommand(kind, golden)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if c.Kind() != kind || c.ID() == "" || subjects.SketchCommand(golden) != c.ID() {
			t.Errorf("%s: kind %s, id %q, sketch %q", kind, c.Kind(), c.ID(), subjects.SketchCommand(golden))
		}
		data, err := subjects.EncodeCommand(c)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		again, err := subjects.DecodeCommand(kind, data)
		if err != nil || again.ID() != c.ID() {
			t.Errorf("%s: %v", kind, err)
		}
		for _, other := range kinds() {
			if other == kind {
				continue
			}
			if _, err := subjects.DecodeCommand(other, golden); err == nil && other != subjects.CommandRunEnd && kind != subjects.CommandRunEnd {
				t.Errorf("%s was read as %s", kind, other)
			}
		}
	}
}

func TestCommandRefused(t *testing.T) {
	t.Parallel()
	id := `"v":1,"command_id":"c"`
	for name, c := range map[string]struct {
		kind        subjects.CommandKind
		text, field string
	}{
		"kind":           {"explode", `{}`, ""},
		"no id":          {subjects.CommandRunEnd, `{"v":1,"run_id":"` + runText + `"}`, "command_id"},
		"bad id":         {subjects.CommandRunEnd, `{"v":1,"command_id":"a b","run_id":"` + runText + `"}`, "command_id"},
		"actor in body":  {subjects.CommandRunEnd, `{` + id + `,"run_id":"` + runText + `","actor":"root"}`, ""},
		"decision":       {subjects.CommandApproval, `{` + id + `,"approval_id":"` + runText + `","decision":"maybe"}`, "decision"},
		"verdict":        {subjects.CommandReview, `{` + id + `,"invocation_id":"` + runText + `","verdict":"perhaps"}`, "verdict"},
		"long comment":   {subjects.CommandReview, `{` + id + `,"invocation_id":"` + runText + `","verdict":"unknown","comment":"` + strings.Repeat("x", 4097) + `"}`, "comment"},
		"long reason":    {subjects.CommandCancel, `{` + id + `,"run_id":"` + runText + `","reason":"` + strings.Repeat("x", 4097) + `"}`, "reason"},
		"NUL":            {subjects.CommandCancel, `{` + id + `,"run_id":"` + runText + `","reason":"\u0000"}`, "reason"},
		"lone surrogate": {subjects.CommandCancel, `{` + id + `,"run_id":"` + runText + `","reason":"\udc00"}`, "reason"},
		"two answers":    {subjects.CommandResume, `{` + id + `,"invocation_id":"` + runText + `","content":1,"child_result":{}}`, "content"},
		"no answer":      {subjects.CommandResume, `{` + id + `,"invocation_id":"` + runText + `"}`, "content"},
		"no scopes":      {subjects.CommandRevoke, `{` + id + `,"principal":"ada","scopes":[]}`, "scopes"},
		"bad scope":      {subjects.CommandRevoke, `{` + id + `,"principal":"ada","scopes":["*","a*"]}`, "scopes[1]"},
		"bad principal":  {subjects.CommandRevoke, `{` + id + `,"principal":"a.b","scopes":["a"]}`, "principal"},
		"too large":      {subjects.CommandResume, `{"v":1,"x":"` + strings.Repeat("x", subjects.MaxMessageBytes) + `"}`, ""},
	} {
		_, err := subjects.DecodeCommand(c.kind, []byte(c.text))
		var field *subjects.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v, want %q blamed", name, err, c.field)
		}
	}
}

func FuzzCommand(f *testing.F) {
	for i, kind := range kinds() {
		f.Add(i, read(f, "testdata/golden/command_"+string(kind)+".json"))
	}
	f.Fuzz(func(t *testing.T, i int, data []byte) {
		all := kinds()
		kind := all[((i%len(all))+len(all))%len(all)]
		sketch := subjects.SketchCommand(data)
		c, err := subjects.DecodeCommand(kind, data)
		if err != nil {
			var field *subjects.FieldError
			if !errors.As(err, &field) {
				t.Fatalf("no FieldError: %v", err)
			}
			return
		}
		if sketch != c.ID() {
			t.Errorf("sketch %q of %q", sketch, c.ID())
		}
		if _, err := subjects.EncodeCommand(c); err != nil {
			t.Errorf("decoded, but does not encode: %v", err)
		}
	})
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(subjects.Answer) bool{
		"outcome": func(a subjects.Answer) bool { return a.Outcome != nil && a.Pending == nil && a.Refusal == nil },
		"pending": func(a subjects.Answer) bool { return a.Pending != nil && a.Outcome == nil && a.Refusal == nil },
		"refusal": func(a subjects.Answer) bool { return a.Refusal != nil && a.Outcome == nil && a.Pending == nil },
	} {
		a, err := subjects.DecodeAnswer(read(t, "testdata/golden/"+name+".json"))
		if err != nil || !check(a) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

func TestAnswersRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, from, to, field string }{
		"outcome status":    {"outcome", `"status": "failed",`, `"status": "odd",`, "status"},
		"two statuses":      {"outcome", `"status": "failed",`, `"status": "denied",`, "item.outcome.status"},
		"success and error": {"outcome", `"status": "failed",`, `"status": "succeeded",`, "item.outcome"},
		"trust":             {"outcome", `"external_untrusted"`, `"odd"`, "item.trust"},
		"part":              {"outcome", `"type": "artifact"`, `"type": "bytes"`, "item.content[1].type"},
		"part member":       {"outcome", `"media_type"`, `"mime"`, "item.content[1]"},
		"waiting":           {"pending", `"approval"`, `"rain"`, "pending.kind"},
		"code":              {"refusal", `"malformed"`, `"bored"`, "refusal.code"},
		"syntax":            {"refusal", `{`, ``, ""},
	} {
		golden := string(read(t, "testdata/golden/"+c.file+".json"))
		text := strings.Replace(golden, c.from, c.to, 1)
		if text == golden {
			t.Fatalf("%s: nothing to replace", name)
		}
		_, err := subjects.DecodeAnswer([]byte(text))
		var field *subjects.FieldError
		if !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v, want %q blamed", name, err, c.field)
		}
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	batch, call := tool.NewID(), tool.NewID()
	data := subjects.AppendHints(nil, []subjects.Hint{subjects.HintBatch(batch), subjects.HintCall(call)})
	got, err := subjects.DecodeHints(data)
	if err != nil || len(got.Hints) != 2 || *got.Hints[0].Batch != batch || *got.Hints[1].Call != call {
		t.Fatalf("%s: %v", data, err)
	}
	for name, text := range map[string]string{
		"none":    `{"v":1,"hints":[]}`,
		"neither": `{"v":1,"hints":[{}]}`,
		"both":    `{"v":1,"hints":[{"batch":"` + runText + `","call":"` + runText + `"}]}`,
		"many":    string(subjects.AppendHints(nil, make([]subjects.Hint, 17))),
	} {
		if _, err := subjects.DecodeHints([]byte(text)); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
}

// What is encoded for every call is encoded without allocating. Not parallel:
// allocations are counted.
func TestEncodersDoNotAllocate(t *testing.T) {
	e, err := subjects.DecodeCallEvent(read(t, "testdata/golden/call_event.json"))
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 0, 4096)
	hints := []subjects.Hint{subjects.HintBatch(tool.NewID()), subjects.HintCall(tool.NewID())}
	if n := testing.AllocsPerRun(100, func() { buffer = subjects.AppendHints(buffer[:0], hints) }); n != 0 {
		t.Errorf("hints: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { buffer = e.AppendJSON(buffer[:0]) }); n != 0 {
		t.Errorf("event: %v allocations", n)
	}
}

// The quick encoder writes what encoding/json would, whatever the texts hold.
func TestCallEventEncoding(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		e := subjects.CallEvent{
			Event: subjects.EventFailed, OccurredAt: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC(),
			TenantID: "acme", Seq: rapid.IntRange(1, 99).Draw(t, "seq"), InvocationID: tool.NewID(), RunID: tool.NewID(),
			StepNumber: rapid.IntRange(0, 1000).Draw(t, "step"), CallID: text.Draw(t, "call"), ToolName: text.Draw(t, "name"),
			ToolSource: tool.MCP, ToolVersion: text.Draw(t, "version"), IdempotencyClass: tool.ReadOnly,
			EffectSent: rapid.Bool().Draw(t, "sent"), Truncated: rapid.Bool().Draw(t, "truncated"),
		}
		e.EventID = subjects.EventID(e.InvocationID, e.Seq)
		if rapid.Bool().Draw(t, "ended") {
			status, code, n, group := tool.OutcomeDenied, text.Draw(t, "code"), rapid.Int64().Draw(t, "n"), tool.NewID()
			e.OutcomeStatus, e.ReasonCode, e.DurationMS, e.OutputBytes, e.ParallelGroup = &status, &code, &n, &n, &group
		}
		want, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		got := e.AppendJSON(nil)
		if !json.Valid(got) || !equalJSON(t, want, got) {
			t.Fatalf("\n%s\n%s", got, want)
		}
	})
	e, err := subjects.DecodeCallEvent(read(t, "testdata/golden/call_event.json"))
	if err != nil {
		t.Fatal(err)
	}
	head := subjects.SketchEvent(e.AppendJSON(nil))
	if head.EventID != e.EventID || head.Event != e.Event || head.Seq != 4 || head.InvocationID != e.InvocationID {
		t.Errorf("head %+v", head)
	}
}

func equalJSON(t *rapid.T, a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		t.Fatal("not JSON")
	}
	return cmp.Equal(x, y)
}

// The members of a call event are the specification's fifteen behind the six of
// the envelope, always in this order.
func TestCallEventMembers(t *testing.T) {
	t.Parallel()
	const want = "v event_id event occurred_at tenant_id seq invocation_id run_id step_number call_id tool_name tool_source " +
		"tool_version outcome_status reason_code idempotency_class effect_sent duration_ms output_bytes truncated parallel_group"
	var e subjects.CallEvent
	decoder := json.NewDecoder(strings.NewReader(string(e.AppendJSON(nil))))
	var names []string
	for i := 0; ; i++ {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		if name, ok := token.(string); ok && i%2 == 1 {
			names = append(names, name)
		}
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEventsRefused(t *testing.T) {
	t.Parallel()
	golden := string(read(t, "testdata/golden/call_event.json"))
	for name, replace := range map[string][2]string{
		"id":     {`"seq": 4`, `"seq": 5`},
		"status": {`"failed",`, `"odd",`},
	} {
		text := strings.Replace(golden, replace[0], replace[1], 1)
		if _, err := subjects.DecodeCallEvent([]byte(text)); text == golden || err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
	e, err := subjects.DecodeEvent(read(t, "testdata/golden/event.json"))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := e.Encode(); err != nil || !strings.Contains(string(data), `"data":{"reason_code":"tool.transport","server":"acme"}`) {
		t.Errorf("%s, %v", data, err)
	}
	e.Event = "Not A Name"
	if _, err := e.Encode(); err == nil {
		t.Error("encoded a bad name")
	}
	e.Event, e.Data = "a.b", map[string]any{"f": func() {}}
	if _, err := e.Encode(); err == nil {
		t.Error("encoded a function")
	}
}

func TestSessionOpenRequest(t *testing.T) {
	t.Parallel()
	var good subjects.SessionOpenRequest
	if err := subjects.Decode(read(t, "testdata/golden/session_open_request.json"), &good); err != nil {
		t.Fatal(err)
	}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*subjects.SessionOpenRequest){
		"request_id":           func(r *subjects.SessionOpenRequest) { r.RequestID = "" },
		"principal.id":         func(r *subjects.SessionOpenRequest) { r.Principal.ID = "a.b" },
		"agent.id":             func(r *subjects.SessionOpenRequest) { r.Agent.ID = "*" },
		"profile":              func(r *subjects.SessionOpenRequest) { r.Profile = "../x" },
		"run_deadline_seconds": func(r *subjects.SessionOpenRequest) { r.RunDeadlineSeconds = -1 },
		"max_tool_calls":       func(r *subjects.SessionOpenRequest) { r.MaxToolCalls = -1 },
		"scopes[0]":            func(r *subjects.SessionOpenRequest) { r.Scopes = []string{"a b"} },
		"agent.tools[0]":       func(r *subjects.SessionOpenRequest) { r.Agent.Tools = []string{""} },
		"servers[1]":           func(r *subjects.SessionOpenRequest) { r.Servers = []string{"a", "b.c"} },
	} {
		r := good
		spoil(&r)
		var blamed *subjects.FieldError
		if err := r.Check(); !errors.As(err, &blamed) || blamed.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for seconds, fine := range map[float64]bool{0: true, 0.001: true, 0.5: true, 315360000: true, 1e-300: false, 1e10: false, 1e300: false} {
		r := good
		r.RunDeadlineSeconds = seconds
		if err := r.Check(); (err == nil) != fine {
			t.Errorf("run_deadline_seconds %v: %v", seconds, err)
		}
	}
}

func TestOutcomeGetRequest(t *testing.T) {
	t.Parallel()
	for step, fine := range map[int]bool{0: true, 1<<31 - 1: true, -1: false, 1 << 31: false} {
		if err := (&subjects.OutcomeGetRequest{StepNumber: step}).Check(); (err == nil) != fine {
			t.Errorf("step_number %d: %v", step, err)
		}
	}
}

// The whole of a principal's authority is taken with one word.
func TestRevokeEverything(t *testing.T) {
	t.Parallel()
	c, err := subjects.DecodeCommand(subjects.CommandRevoke, []byte(`{"v":1,"command_id":"c","principal":"mallory","scopes":["*"]}`))
	if err != nil || c.Kind() != subjects.CommandRevoke {
		t.Errorf("%v, %v", c, err)
	}
}

func TestRPCErrorMatchesByCode(t *testing.T) {
	t.Parallel()
	err := error(&subjects.RPCError{Code: subjects.CodeNotFound, Message: "no such command"})
	if !errors.Is(err, &subjects.RPCError{Code: subjects.CodeNotFound}) || errors.Is(err, &subjects.RPCError{Code: subjects.CodeInternal}) {
		t.Error("codes do not decide")
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	if (subjects.Verdict{}) != subjects.Retry(0) || subjects.Ack().Action != subjects.ActionAck || subjects.Park("x").Reason != "x" {
		t.Error("the zero verdict must be the one that loses nothing")
	}
}

// Surrogates that are whole, and the replacement character itself, are text.
func TestStrings(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`"plain"`: true, `"\ud83d\ude00"`: true, `"\\ud800"`: true, `"\ufffd"`: true, `"a\n\"b"`: true,
		`"\ud800"`: false, `"\udc00"`: false, `"\ud800\ud800"`: false, `"\ud800x"`: false, `"\ufffd\ud800"`: false, `"a\u0000"`: false,
	} {
		var into string
		if err := subjects.Decode([]byte(text), &into); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := subjects.Decode([]byte(`1`), nil); err == nil {
		t.Error("decoded into nothing")
	}
	var unsupported struct {
		C chan int `json:"c"`
	}
	if err := subjects.Decode([]byte(`{"c":1}`), &unsupported); err == nil {
		t.Error("decoded into a channel")
	}
}
