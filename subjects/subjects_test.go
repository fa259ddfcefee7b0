package subjects_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

const runText = "0193a1b2-c3d4-7000-8000-000000000002"

func runID(t testing.TB) tool.ID {
	t.Helper()
	id, err := tool.ParseID(runText)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSpelling(t *testing.T) {
	t.Parallel()
	run := runID(t)
	build := func(s string, err error) string {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		return s
	}
	for want, got := range map[string]string{
		"toolbus.propose.acme." + runText:                     build(subjects.Propose("acme", run)),
		"toolbus.outcome.acme." + runText:                     build(subjects.OutcomeFor("acme", run)),
		"toolbus.execute.acme.in_process":                     build(subjects.Execute("acme", tool.InProcess)),
		"toolbus.execute.*.sandbox":                           subjects.ExecuteOf(tool.SandboxTarget),
		"toolbus.command.acme.run_end.rt-1":                   build(subjects.CommandFor("acme", subjects.CommandRunEnd, "rt-1")),
		"toolbus.event.acme." + runText + ".tool.call.failed": build(subjects.EventFor("acme", run, "tool.call.failed")),
		"toolbus.event.acme.-.command.settled":                build(subjects.EventFor("acme", tool.ID{}, "command.settled")),
		"toolbus.rpc.gatekeeper.session_open.acme":            build(subjects.RPC("gatekeeper", "session_open", "acme")),
		"toolbus.rpc.mcpgateway.servers_put.*":                subjects.RPCOf("mcpgateway", "servers_put"),
		"toolbus.gateway.gw-1.call":                           build(subjects.Gateway("gw-1", "call")),
		"outcome:" + runText + ":2":                           subjects.OutcomeID(run, 2),
		"pending:" + runText + ":ref":                         subjects.PendingID(run, "ref"),
		"refusal:" + runText + ":7:0":                         subjects.RefusalID(run, 7, 0),
		runText + ":3":                                        subjects.EventID(run, 3),
		"executor-in_process":                                 subjects.DurableExecutor(tool.InProcess),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// No wildcard, separator, space, control character or overlong token passes any
// builder.
func TestHostileTokens(t *testing.T) {
	t.Parallel()
	run := runID(t)
	hostile := []string{
		"", "*", ">", "a.b", "a b", "a\r\nPUB x", "a\x00b", "é", "a*", "$JS", strings.Repeat("a", 65), "ａ", "a\t",
	}
	for _, bad := range hostile {
		for name, build := range map[string]func() (string, error){
			"propose":         func() (string, error) { return subjects.Propose(bad, run) },
			"outcome":         func() (string, error) { return subjects.OutcomeFor(bad, run) },
			"execute tenant":  func() (string, error) { return subjects.Execute(bad, tool.InProcess) },
			"execute target":  func() (string, error) { return subjects.Execute("acme", tool.Target(bad)) },
			"command tenant":  func() (string, error) { return subjects.CommandFor(bad, subjects.CommandCancel, "a") },
			"command kind":    func() (string, error) { return subjects.CommandFor("acme", subjects.CommandKind(bad), "a") },
			"command actor":   func() (string, error) { return subjects.CommandFor("acme", subjects.CommandCancel, bad) },
			"event tenant":    func() (string, error) { return subjects.EventFor(bad, run, "run.failed") },
			"rpc service":     func() (string, error) { return subjects.RPC(bad, "v", "acme") },
			"rpc verb":        func() (string, error) { return subjects.RPC("gatekeeper", bad, "acme") },
			"rpc tenant":      func() (string, error) { return subjects.RPC("gatekeeper", "v", bad) },
			"gateway":         func() (string, error) { return subjects.Gateway(bad, "call") },
			"gateway verb":    func() (string, error) { return subjects.Gateway("gw", bad) },
			"zero run":        func() (string, error) { return subjects.Propose("acme", tool.ID{}) },
			"event name":      func() (string, error) { return subjects.EventFor("acme", run, bad+".") },
			"event name dots": func() (string, error) { return subjects.EventFor("acme", run, "a.."+bad) },
		} {
			if got, err := build(); !errors.Is(err, subjects.ErrToken) || got != "" {
				t.Errorf("%s with %q: %q, %v", name, bad, got, err)
			}
		}
	}
}

func TestParsersRefuse(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "toolbus", "toolbus.propose", "toolbus.propose.acme", "toolbus.propose.acme." + strings.ToUpper(runText),
		"toolbus.propose.acme." + runText + ".x", "toolbus.propose.*." + runText, "toolbus.propose..", "other.propose.acme." + runText,
		"toolbus.propose.acme.00000000-0000-0000-0000-000000000000",
		"toolbus.execute.acme.elsewhere", "toolbus.command.acme.explode.me", "toolbus.event.acme.-.", "toolbus.event.acme.x.run.failed",
		"toolbus.event.acme.-.Run", "toolbus.rpc.store.verb.acme", "toolbus.gateway.gw", "toolbus.event.acme." + runText,
	} {
		for name, err := range parseAll(bad) {
			if !errors.Is(err, subjects.ErrToken) {
				t.Errorf("%s parsed %q: %v", name, bad, err)
			}
		}
	}
}

func parseAll(s string) map[string]error {
	_, propose := subjects.ParsePropose(s)
	_, outcome := subjects.ParseOutcome(s)
	_, execute := subjects.ParseExecute(s)
	_, command := subjects.ParseCommand(s)
	_, event := subjects.ParseEvent(s)
	_, rpc := subjects.ParseRPC(s)
	_, gateway := subjects.ParseGateway(s)
	return map[string]error{
		"propose": propose, "outcome": outcome, "execute": execute, "command": command,
		"event": event, "rpc": rpc, "gateway": gateway,
	}
}

// rebuild parses with every parser and builds again.
func rebuild(s string) []string {
	var out []string
	keep := func(parsed error) func(string, error) {
		return func(again string, err error) {
			if parsed == nil && err == nil {
				out = append(out, again)
			} else if parsed == nil {
				out = append(out, "parsed, but not built: "+err.Error())
			}
		}
	}
	p, err := subjects.ParsePropose(s)
	keep(err)(subjects.Propose(p.Tenant, p.Run))
	o, err := subjects.ParseOutcome(s)
	keep(err)(subjects.OutcomeFor(o.Tenant, o.Run))
	x, err := subjects.ParseExecute(s)
	keep(err)(subjects.Execute(x.Tenant, x.Target))
	c, err := subjects.ParseCommand(s)
	keep(err)(subjects.CommandFor(c.Tenant, c.Kind, c.Actor))
	e, err := subjects.ParseEvent(s)
	keep(err)(subjects.EventFor(e.Tenant, e.Run, e.Name))
	r, err := subjects.ParseRPC(s)
	keep(err)(subjects.RPC(r.Service, r.Verb, r.Tenant))
	g, err := subjects.ParseGateway(s)
	keep(err)(subjects.Gateway(g.Instance, g.Verb))
	return out
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"toolbus.propose.acme." + runText, "toolbus.outcome.acme." + runText, "toolbus.execute.acme.mcp",
		"toolbus.command.acme.review.ops", "toolbus.event.acme.-.command.settled", "toolbus.rpc.gatekeeper.v.acme",
		"toolbus.gateway.gw-1.call", "toolbus.propose.*.>", "toolbus.event.acme." + runText + ".tool.call.started",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		again := rebuild(s)
		if len(again) > 1 || len(again) == 1 && again[0] != s {
			t.Errorf("%q came back as %q", s, again)
		}
		if len(again) == 1 && strings.ContainsAny(s, "*> \t\r\n\x00") {
			t.Errorf("parsed %q", s)
		}
	})
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`)
		want := subjects.EventSubject{
			Tenant: word.Draw(t, "tenant"), Name: rapid.StringMatching(`[a-z][a-z0-9_]{0,9}(\.[a-z][a-z0-9_]{0,9}){0,3}`).Draw(t, "name"),
		}
		copy(want.Run[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "run"))
		s, err := subjects.EventFor(want.Tenant, want.Run, want.Name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := subjects.ParseEvent(s)
		if err != nil || got != want {
			t.Fatalf("%s: %v, %v", s, cmp.Diff(want, got), err)
		}
	})
}
