package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// events makes the output of `go test -json` out of lines "action test".
func events(t *testing.T, lines ...string) string {
	t.Helper()
	var b strings.Builder
	for _, line := range lines {
		action, test, _ := strings.Cut(line, " ")
		e := event{Action: action, Test: test}
		if text, isOutput := strings.CutPrefix(action, "output:"); isOutput {
			e.Action, e.Output = "output", text+"\n"
		}
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(raw)
		b.WriteByte('\n')
	}
	return b.String()
}

func TestReport(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in       string
		expected []int
		want     string
		failed   bool
	}{
		"all well": {
			in: events(t, "run TestGate07_CrashAtEveryStep", "run TestGate07_CrashAtEveryStep/before", "run TestGate07_CrashAtEveryStep/before/3",
				"pass TestGate07_CrashAtEveryStep/before/3", "pass TestGate07_CrashAtEveryStep/before/4", "pass TestGate07_CrashAtEveryStep/before",
				"pass TestGate07_CrashAtEveryStep", "pass TestGate02_ForcedTrust/mcp", "pass TestGate02_ForcedTrust", "pass TestHelper", "pass"),
			want: "gate 02 forced-trust ok 1 case\ngate 07 crash-at-every-step ok 2 cases\n2 of 2 gates passed, 3 cases\n",
		},
		"a failed case": {
			in:   events(t, "output:boom TestGate08_Twice/two", "fail TestGate08_Twice/two", "pass TestGate08_Twice/fifty", "fail TestGate08_Twice", "fail"),
			want: "gate 08 twice FAILED 2 cases, 1 failed: two\n\nboom\n\n0 of 1 gates passed, 2 cases\n", failed: true,
		},
		"many failed cases": {
			in:   events(t, "fail TestGate08_T/a", "fail TestGate08_T/b", "fail TestGate08_T/c", "fail TestGate08_T/d", "fail TestGate08_T/e", "fail TestGate08_T"),
			want: "gate 08 t FAILED 5 cases, 5 failed: a, b, c and 2 more\n\n0 of 1 gates passed, 5 cases\n", failed: true,
		},
		"no case": {
			in:   events(t, "pass TestGate09_Canonical", "pass"),
			want: "gate 09 canonical FAILED 0 cases, no case ran\n\n0 of 1 gates passed, 0 cases\n", failed: true,
		},
		"a skipped case": {
			in:   events(t, "skip TestGate09_Canonical/vectors", "pass TestGate09_Canonical", "pass"),
			want: "gate 09 canonical FAILED 1 case, 1 failed: vectors\n\n0 of 1 gates passed, 1 cases\n", failed: true,
		},
		"a case that never ended": {
			in:   events(t, "run TestGate09_Canonical/vectors", "fail"),
			want: "gate 09 canonical FAILED 1 case, 1 failed: vectors\n\n0 of 1 gates passed, 1 cases\n", failed: true,
		},
		"failed outside its cases": {
			in:   events(t, "pass TestGate09_Canonical/vectors", "output:leak TestGate09_Canonical", "fail TestGate09_Canonical", "fail"),
			want: "gate 09 canonical FAILED 1 case, the test itself failed\n\nleak\n\n0 of 1 gates passed, 1 cases\n", failed: true,
		},
		"a missing gate": {
			in: events(t, "pass TestGate02_B/x", "pass TestGate02_B", "pass"), expected: []int{1, 2},
			want: "gate 01 missing FAILED 0 cases, there is no test of this number\ngate 02 b ok 1 case\n\n1 of 2 gates passed, 1 cases\n", failed: true,
		},
		"two of one number": {
			in:   events(t, "pass TestGate02_A/x", "pass TestGate02_A", "pass TestGate02_B/x", "pass TestGate02_B"),
			want: "gate 02 a FAILED 1 case, there are two gates of this number\n\n0 of 1 gates passed, 1 cases\n", failed: true,
		},
		"a failure of no gate": {
			in:   events(t, "pass TestGate02_A/x", "pass TestGate02_A", "output:leaked", "fail"),
			want: "gate 02 a ok 1 case\n\nleaked\n\n1 of 1 gates passed, 1 cases\n", failed: true,
		},
		"nothing compiles": {
			in:   "gates/x.go:1: syntax error\n" + events(t, "build-fail", "fail"),
			want: "\ngates/x.go:1: syntax error\n\n0 of 0 gates passed, 0 cases\n", failed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			passed, err := run(strings.NewReader(tc.in), &out, tc.expected)
			if err != nil {
				t.Fatal(err)
			}
			if passed == tc.failed {
				t.Errorf("passed = %v", passed)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKebab(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"CrashAtEveryStep": "crash-at-every-step", "MCPImports": "mcp-imports", "SSRF": "ssrf", "Import_Boundary": "import-boundary",
		"StepOf14Calls": "step-of14-calls",
	} {
		if got := kebab(in); got != want {
			t.Errorf("kebab(%s) = %s, want %s", in, got, want)
		}
	}
}
