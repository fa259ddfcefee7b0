package gates

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/test/systemtest"
	"github.com/toolbus/toolbus/tool"
)

// TestGate21_BadInput: whatever is put on the bus, and whatever a tool returns,
// gets the refusal or the outcome that the contract names, is recorded where it
// cannot be answered, and holds up nobody: a good proposal works afterwards, and
// no call stays open.
func TestGate21_BadInput(t *testing.T) {
	t.Parallel()
	t.Run("proposals", gate21Proposals)
	t.Run("proposal corpus", gate21ProposalCorpus)
	t.Run("commands", gate21Commands)
	t.Run("hints", gate21Hints)
	t.Run("subjects", gate21Subjects)
	t.Run("a hostile tool", gate21Tool)
}

// badInput is a system that is fed.
type badInput struct {
	*systemtest.System
	sql     *systemtest.SQL
	nats    *nats.Conn
	session *systemtest.Runtime
}

func newBadInput(t *testing.T, change func(*app.Options)) *badInput {
	t.Helper()
	return feed(t, systemtest.New(t).Patient(), change)
}

func feed(t *testing.T, s *systemtest.System, change func(*app.Options)) *badInput {
	t.Helper()
	b := &badInput{System: s}
	b.Start(t, change, systemtest.Core()...)
	b.sql, b.nats = b.SQL(t), b.NATS(t)
	b.session = b.OpenRuntime(t, "acme", nil)
	return b
}

// alive proposes a good step, and wants nothing open and nothing unhandled.
func (b *badInput) alive(t *testing.T) {
	t.Helper()
	r := b.session.NewRun(t)
	r.Propose(t, 1, systemtest.Call("c1", "demo.echo", `{"text":"hello"}`))
	if o := r.Outcome(t, 1, "c1"); o.Status != tool.OutcomeSucceeded {
		t.Errorf("a good proposal: %s %+v", o.Status, o.Item.Outcome)
	}
	b.AwaitIdle(t)
	if open := b.sql.Count(t, `SELECT count(*) FROM tool_invocations WHERE completed_at IS NULL`); open != 0 {
		t.Errorf("%d calls stay open", open)
	}
	b.sql.CheckInvariants(t)
}

// publish stores a message under any subject that a stream takes, and reports
// whether it was stored.
func (b *badInput) publish(t *testing.T, subject string, data []byte) bool {
	t.Helper()
	_, err := b.nats.Request(subject, data, 5*time.Second)
	return err == nil
}

func (b *badInput) dead(t *testing.T, kind string) int {
	t.Helper()
	return b.sql.Count(t, `SELECT count(*) FROM dead_letters WHERE kind = $1`, kind)
}

// proposalText is a proposal with one call, member by member.
type proposalText struct {
	v, session, run, step, extra, calls string
}

func (p proposalText) String() string {
	return fmt.Sprintf(`{"v":%s,"session_id":%q,"run_id":%q,"step_number":%s%s,"origin_trust":"user","calls":[%s]}`,
		p.v, p.session, p.run, p.step, p.extra, p.calls)
}

func echo(arguments string) string {
	return `{"call_id":"c1","name":"demo.echo","arguments":` + arguments + `}`
}

// gate21Case is one proposal and what is said to it: a refusal, or the reason
// code of its only call, - for success.
type gate21Case struct {
	change  func(p *proposalText)
	text    func(p proposalText) string
	refusal subjects.RefusalCode
	reason  string
}

func gate21Cases(foreign tool.ID) map[string]gate21Case {
	calls := func(text string) func(*proposalText) { return func(p *proposalText) { p.calls = text } }
	extra := func(text string) func(*proposalText) { return func(p *proposalText) { p.extra = text } }
	raw := func(text string) func(proposalText) string { return func(proposalText) string { return text } }
	malformed := func(change func(*proposalText)) gate21Case {
		return gate21Case{change: change, refusal: subjects.RefusedMalformed}
	}
	many := strings.TrimSuffix(strings.Repeat(`{"call_id":"c%d","name":"demo.echo","arguments":{}},`, 129), ",")
	numbers := make([]any, 129)
	for i := range numbers {
		numbers[i] = i
	}
	return map[string]gate21Case{
		"nothing":                   {text: raw(""), refusal: subjects.RefusedMalformed},
		"no JSON":                   {text: raw("\x00\xff{"), refusal: subjects.RefusedMalformed},
		"cut":                       {text: func(p proposalText) string { return p.String()[:80] }, refusal: subjects.RefusedMalformed},
		"two documents":             {text: func(p proposalText) string { return p.String() + p.String() }, refusal: subjects.RefusedMalformed},
		"invalid UTF-8":             malformed(calls(echo("{\"text\":\"\xff\"}"))),
		"other version":             malformed(func(p *proposalText) { p.v = "2" }),
		"unknown field":             malformed(extra(`,"priority":1`)),
		"field twice":               malformed(extra(`,"step_number":2`)),
		"run of another subject":    malformed(func(p *proposalText) { p.run = tool.NewID().String() }),
		"step below zero":           malformed(func(p *proposalText) { p.step = "-1" }),
		"step beyond 32 bits":       malformed(func(p *proposalText) { p.step = "4294967296" }),
		"no calls":                  malformed(calls("")),
		"129 calls":                 malformed(calls(fmt.Sprintf(many, numbers...))),
		"call id twice":             malformed(calls(echo(`{}`) + "," + echo(`{"text":"x"}`))),
		"call id of the bridge":     malformed(calls(`{"call_id":"bridge:1","name":"demo.echo","arguments":{}}`)),
		"arguments are no object":   malformed(calls(echo(`[1]`))),
		"trust beyond the ceiling":  malformed(calls(`{"call_id":"c1","name":"demo.echo","arguments":{"text":"x"},"argument_trust":{"text":"platform"}}`)),
		"trust of no argument":      malformed(calls(`{"call_id":"c1","name":"demo.echo","arguments":{},"argument_trust":{"text":"user"}}`)),
		"larger than a proposal":    malformed(calls(echo(`{"text":"` + strings.Repeat("a", subjects.MaxProposalBytes) + `"}`))),
		"unknown session":           {change: func(p *proposalText) { p.session = tool.NewID().String() }, refusal: subjects.RefusedUnknownSession},
		"session of another tenant": {change: func(p *proposalText) { p.session = foreign.String() }, refusal: subjects.RefusedUnknownSession},

		"lone surrogate":        {change: calls(echo(`{"text":"\ud800"}`)), reason: "tool.arguments_invalid"},
		"argument twice":        {change: calls(echo(`{"text":"a","text":"b"}`)), reason: "tool.arguments_invalid"},
		"argument of a key":     {change: calls(echo(`{"\u0000":1}`)), reason: "tool.arguments_invalid"},
		"negative zero":         {change: calls(echo(`{"data":{"a":-0}}`)), reason: "tool.arguments_invalid"},
		"a thousand levels":     {change: calls(echo(`{"data":{"a":` + nested(1000) + `}}`)), reason: "tool.arguments_invalid"},
		"late":                  {change: extra(`,"deadline_at":"2001-01-01T00:00:00Z"`), reason: "tool.timeout"},
		"unknown tool":          {change: calls(`{"call_id":"c1","name":"no.such","arguments":{"a":"\u0000"}}`), reason: "policy.matrix.unknown_tool"},
		"NUL in an argument":    {change: calls(echo(`{"text":"a\u0000b"}`)), reason: "-"},
		"64 levels":             {change: calls(echo(`{"data":{"a":` + nested(62) + `}}`)), reason: "-"},
		"NUL in structured":     {change: calls(echo(`{"data":{"a":"\u0000"}}`)), reason: "tool.output_invalid"},
		"almost a proposal":     {change: calls(echo(`{"text":"` + strings.Repeat("a", subjects.MaxProposalBytes-1000) + `"}`)), reason: "-"},
		"key that is no name":   {change: calls(echo(`{"data":{"":{" ":{"a.b":1}}}}`)), reason: "-"},
		"number of 400 digits":  {change: calls(echo(`{"data":{"a":` + strings.Repeat("9", 400) + `}}`)), reason: "-"},
		"number of 4000 digits": {change: calls(echo(`{"data":{"a":` + strings.Repeat("9", 4000) + `}}`)), reason: "tool.arguments_invalid"},
	}
}

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func gate21Proposals(t *testing.T) {
	t.Parallel()
	b := newBadInput(t, nil)
	foreign := b.OpenRuntime(t, "globex", nil)
	for name, c := range gate21Cases(foreign.Session) {
		r := b.session.NewRun(t)
		p := proposalText{v: "1", session: b.session.Session.String(), run: r.Run.String(), step: "1", calls: echo(`{}`)}
		if c.change != nil {
			c.change(&p)
		}
		text := p.String()
		if c.text != nil {
			text = c.text(p)
		}
		before := b.dead(t, "proposal")
		r.SendRaw(t, []byte(text))
		if c.refusal != "" {
			got := r.Refusal(t, c.refusal)
			if got.RunID != r.Run {
				t.Errorf("%s: refusal %+v", name, got)
			}
			if strings.Contains(got.Refusal.Message, "aaaa") {
				t.Errorf("%s: the refusal repeats a value: %.100s", name, got.Refusal.Message)
			}
			if dead := b.dead(t, "proposal") - before; (dead == 1) != (c.refusal == subjects.RefusedMalformed) || dead > 1 {
				t.Errorf("%s: %d dead letters", name, dead)
			}
			continue
		}
		o := r.Outcome(t, 1, "c1")
		reason := "-"
		if o.Item.Outcome != nil {
			reason = o.Item.Outcome.ReasonCode
		}
		if reason != c.reason {
			t.Errorf("%s: %s %s, want %s", name, o.Status, reason, c.reason)
		}
	}
	gate21Closed(t, b)
	b.alive(t)
}

// gate21Closed proposes to what is over.
func gate21Closed(t *testing.T, b *badInput) {
	t.Helper()
	ended := b.session.NewRun(t)
	ended.Propose(t, 1, systemtest.Call("c1", "demo.echo", `{}`))
	ended.Outcome(t, 1, "c1")
	ended.Command(t, "runtime", &subjects.RunEnd{CommandID: tool.NewID().String(), RunID: ended.Run})
	ended.Propose(t, 2, systemtest.Call("c1", "demo.echo", `{}`))
	ended.Refusal(t, subjects.RefusedRunCancelled)
	ended.Propose(t, 1, systemtest.Call("c1", "demo.echo", `{"text":"other"}`))
	ended.Refusal(t, subjects.RefusedCallIDReused)
	closed := b.OpenRuntime(t, "acme", nil)
	closed.Command(t, "runtime", &subjects.SessionClose{CommandID: tool.NewID().String(), SessionID: closed.Session})
	closed.Propose(t, 1, systemtest.Call("c1", "demo.echo", `{}`))
	closed.Refusal(t, subjects.RefusedSessionClosed)
	// The run of one session belongs to no other.
	other := b.OpenRuntime(t, "acme", nil).ForRun(t, ended.Run)
	other.Propose(t, 3, systemtest.Call("c1", "demo.echo", `{}`))
	other.Refusal(t, subjects.RefusedUnknownSession)
}

// corpus reads a fuzz corpus: the arguments of each entry, as Go literals.
func corpus(t *testing.T, name string) [][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "subjects", "testdata", "fuzz", name, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus %s: %v", name, err)
	}
	var out [][]string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.Split(strings.TrimSpace(string(data)), "\n")[1:])
	}
	return out
}

// literal gives the value of a corpus line such as []byte("…") or string("…").
func literal(t *testing.T, line string) []byte {
	t.Helper()
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	text, err := strconv.Unquote(line[open+1 : end])
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return []byte(text)
}

func gate21ProposalCorpus(t *testing.T) {
	t.Parallel()
	b := newBadInput(t, nil)
	for _, entry := range corpus(t, "FuzzProposal") {
		data := literal(t, entry[0])
		r := b.session.NewRun(t)
		if run := subjects.SketchProposal(data).RunID; !run.IsZero() {
			r = b.session.ForRun(t, run)
		}
		want := subjects.RefusedUnknownSession
		if _, err := (subjects.ProposalDecoder{Run: r.Run}).Decode(data); err != nil {
			want = subjects.RefusedMalformed
		}
		r.SendRaw(t, data)
		r.Refusal(t, want)
	}
	b.alive(t)
}

func gate21Commands(t *testing.T) {
	t.Parallel()
	b := newBadInput(t, nil)
	kinds := append(subjects.RuntimeCommands(), subjects.OperatorCommands()...)
	type message struct {
		kind string
		data []byte
	}
	var all []message
	for _, entry := range corpus(t, "FuzzCommand") {
		data := literal(t, entry[1])
		for _, kind := range kinds {
			all = append(all, message{string(kind), data})
		}
	}
	for _, text := range []string{
		"", "{", `{"v":1}`, `{"v":1,"command_id":"bad-1","run_id":"x"}`, `{"v":1,"command_id":"bad-2","run_id":"` + tool.NewID().String() + `","reason":"\u0000"}`,
		`{"v":1,"command_id":"bad-3","approval_id":"` + tool.NewID().String() + `","decision":"maybe"}`, nested(10000),
		`{"v":1,"command_id":"bad-4","run_id":"` + tool.NewID().String() + `","reason":"\ud800"}`,
	} {
		all = append(all, message{"cancel", []byte(text)}, message{"approval", []byte(text)}, message{"nonsense", []byte(text)})
	}
	for _, m := range all {
		if !b.publish(t, "toolbus.command.acme."+m.kind+".operator", m.data) {
			t.Fatalf("%s %.100q was not stored", m.kind, m.data)
		}
	}
	b.AwaitIdle(t)
	for _, m := range all {
		id := subjects.SketchCommand(m.data)
		if id == "" || m.kind == "nonsense" {
			continue
		}
		if got := b.session.Settled(t, id); got.Result != "refused" {
			t.Errorf("%s %.100q: %+v", m.kind, m.data, got)
		}
	}
	dead := b.dead(t, "command")
	for _, m := range all {
		if _, err := subjects.DecodeCommand(subjects.CommandKind(m.kind), m.data); err != nil {
			dead--
		}
	}
	if dead < 0 {
		t.Errorf("%d malformed commands are in no dead letter", -dead)
	}
	b.alive(t)
}

func gate21Hints(t *testing.T) {
	t.Parallel()
	b := newBadInput(t, nil)
	id := tool.NewID().String()
	malformed := []string{
		"", "{", `{"v":1,"hints":[]}`, `{"v":1,"hints":[{}]}`, `{"v":1,"hints":[{"call":"x"}]}`, `{"v":2,"hints":[{"call":"` + id + `"}]}`, "\xff\x00",
		`{"v":1,"hints":[` + strings.TrimSuffix(strings.Repeat(`{"call":"`+id+`"},`, 17), ",") + `]}`,
		`{"v":1,"hints":[{"call":"` + id + `","batch":"` + id + `"}]}`,
	}
	for _, text := range malformed {
		if !b.publish(t, "toolbus.execute.acme.in_process", []byte(text)) {
			t.Fatalf("%q was not stored", text)
		}
	}
	// Hints for nothing, for nobody, for another tenant's call.
	r := b.session.NewRun(t)
	r.Propose(t, 1, systemtest.Call("c1", "demo.external_write", `{}`))
	approval := r.Approval(t, 1, "c1")
	waiting := systemtest.Value[tool.ID](t, b.sql, `SELECT id FROM tool_invocations WHERE run_id = $1`, r.Run)
	for _, tenant := range []string{"acme", "globex", "nobody"} {
		for _, target := range []string{"in_process", "sandbox"} {
			hint := subjects.AppendHints(nil, []subjects.Hint{subjects.HintCall(waiting), subjects.HintBatch(waiting), subjects.HintCall(tool.NewID())})
			if !b.publish(t, "toolbus.execute."+tenant+"."+target, hint) {
				t.Fatal("not stored")
			}
		}
	}
	b.AwaitIdle(t)
	if status := systemtest.Value[string](t, b.sql, `SELECT status FROM tool_invocations WHERE id = $1`, waiting); status != "waiting_for_approval" {
		t.Errorf("a forged hint made it %s", status)
	}
	if dead := b.dead(t, "hint"); dead != len(malformed) {
		t.Errorf("%d dead letters of %d", dead, len(malformed))
	}
	r.Decide(t, approval, subjects.DecisionDeny)
	b.alive(t)
}

func gate21Subjects(t *testing.T) {
	t.Parallel()
	b := newBadInput(t, nil)
	run := tool.NewID().String()
	body := []byte(proposalText{v: "1", session: b.session.Session.String(), run: run, step: "1", calls: echo(`{}`)}.String())
	odd := []string{
		"toolbus.propose.acme.x", "toolbus.propose.acme." + strings.ToUpper(run), "toolbus.propose.ac\xffme." + run, "toolbus.propose.acmé." + run,
		"toolbus.propose." + strings.Repeat("a", 65) + "." + run, "toolbus.propose.acme." + strings.Repeat("a", 2000), "toolbus.propose.'--." + run,
		"toolbus.propose.acme\x00." + run, "toolbus.propose.,." + run, "toolbus.propose.acme,globex." + run,
		"toolbus.command.acme.cancel.\xff", "toolbus.command.acme." + strings.Repeat("k", 300) + ".a", "toolbus.command.acme,globex.cancel.a", "toolbus.command.\x01.cancel.a",
		"toolbus.execute.acme.nowhere", "toolbus.execute.\xff.in_process", "toolbus.execute.acme,globex.in_process",
	}
	for _, entry := range corpus(t, "FuzzParse") {
		odd = append(odd, string(literal(t, entry[0])))
	}
	for _, subject := range odd {
		if strings.ContainsAny(subject, " \t\r\n*>") || subject == "" {
			continue // no publisher can say it
		}
		for _, prefix := range []string{"toolbus.propose.", "toolbus.command.", "toolbus.execute."} {
			if strings.HasPrefix(subject, prefix) {
				stored := b.publish(t, subject, body)
				if !stored && strings.Count(subject, ".") == strings.Count(prefix, ".")+1 {
					t.Errorf("%.80q was not stored: the gate saw nothing", subject)
				}
			}
		}
	}
	// Hints of a target that nobody serves wait for whoever will.
	systemtest.Await(t, "handled messages", func() bool {
		return systemtest.Backlog(t, b.nats, subjects.StreamPropose) == 0 && systemtest.Backlog(t, b.nats, subjects.StreamCommand) == 0
	})
	if dead := b.dead(t, "proposal"); dead < 10 {
		t.Errorf("%d dead letters of proposals", dead)
	}
	if dead := b.dead(t, "command"); dead < 4 {
		t.Errorf("%d dead letters of commands", dead)
	}
	r := b.session.NewRun(t)
	r.Propose(t, 1, systemtest.Call("c1", "demo.echo", `{"text":"hello"}`))
	r.Outcome(t, 1, "c1")
	if rows := b.sql.Count(t, `SELECT count(*) FROM tool_invocations`); rows != 1 {
		t.Errorf("%d calls", rows)
	}
	if !bytes.Contains(systemtest.Value[[]byte](t, b.sql, `SELECT payload FROM dead_letters WHERE kind = 'proposal' LIMIT 1`), []byte("demo.echo")) {
		t.Error("the payload is not kept")
	}
}
