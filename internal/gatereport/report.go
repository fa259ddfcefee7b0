package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action string `json:"Action"` //nolint:tagliatelle // the go command's names
	Test   string `json:"Test"`   //nolint:tagliatelle // as above
	Output string `json:"Output"` //nolint:tagliatelle // as above
}

// result is what became of one test.
type result struct {
	action string // pass, fail, skip; empty while it runs
	output strings.Builder
	parent bool // it has subtests
}

// report collects results by the full name of the test.
type report struct {
	tests map[string]*result
	// loose is output that belongs to no test: build errors, panics outside.
	loose strings.Builder
	// broken is set by the failure of something that is no test.
	broken bool
}

// run reads the events, prints the lines and says whether every gate passed.
func run(in io.Reader, out io.Writer, expected []int) (bool, error) {
	r := report{tests: map[string]*result{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(&r.loose, lines.Text()) // the go command complains in plain text
			continue
		}
		r.add(e)
	}
	if err := lines.Err(); err != nil {
		return false, fmt.Errorf("read: %w", err)
	}
	return r.print(out, expected)
}

func (r *report) add(e event) {
	if e.Test == "" {
		r.loose.WriteString(e.Output)
		r.broken = r.broken || e.Action == "fail" || e.Action == "build-fail"
		return
	}
	t := r.test(e.Test)
	switch e.Action {
	case "pass", "fail", "skip":
		t.action = e.Action
	case "output":
		t.output.WriteString(e.Output)
	}
	if parent, _, nested := cutLast(e.Test, "/"); nested {
		r.test(parent).parent = true
	}
}

func (r *report) test(name string) *result {
	if r.tests[name] == nil {
		r.tests[name] = &result{}
	}
	return r.tests[name]
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// gate is one line of the report.
type gate struct {
	number int
	name   string
	cases  int
	failed []string // names of cases that did not pass, without the gate's own
	reason string   // why it failed, when no case says so
}

var gateName = regexp.MustCompile(`^TestGate(\d\d)_(\w+)$`)

// gates makes the lines, in order of number.
func (r *report) gates(expected []int) []gate {
	byNumber := map[int]gate{}
	for _, name := range slices.Sorted(maps.Keys(r.tests)) {
		match := gateName.FindStringSubmatch(name)
		if match == nil {
			continue
		}
		number, _ := strconv.Atoi(match[1]) // two digits by the expression
		if earlier, twice := byNumber[number]; twice {
			earlier.reason = "there are two gates of this number"
			byNumber[number] = earlier
			continue
		}
		byNumber[number] = r.gate(number, name, kebab(match[2]))
	}
	for _, number := range expected {
		if _, there := byNumber[number]; !there {
			byNumber[number] = gate{number: number, name: "missing", reason: "there is no test of this number"}
		}
	}
	return slices.SortedFunc(maps.Values(byNumber), func(a, b gate) int { return a.number - b.number })
}

func (r *report) gate(number int, test, name string) gate {
	g := gate{number: number, name: name}
	for _, full := range slices.Sorted(maps.Keys(r.tests)) {
		caseName, nested := strings.CutPrefix(full, test+"/")
		if !nested || r.tests[full].parent {
			continue
		}
		g.cases++
		if r.tests[full].action != "pass" {
			g.failed = append(g.failed, caseName)
		}
	}
	switch {
	case len(g.failed) > 0:
	case r.tests[test].action != "pass":
		g.reason = "the test itself failed"
	case g.cases == 0:
		g.reason = "no case ran"
	}
	return g
}

// shown is how many failed cases a line names.
const shown = 3

// String is the line.
func (g gate) String() string {
	line := fmt.Sprintf("gate %02d %s", g.number, g.name)
	cases := fmt.Sprintf("%d cases", g.cases)
	if g.cases == 1 {
		cases = "1 case"
	}
	switch {
	case len(g.failed) > 0:
		names := strings.Join(g.failed[:min(shown, len(g.failed))], ", ")
		if more := len(g.failed) - shown; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		return fmt.Sprintf("%s FAILED %s, %d failed: %s", line, cases, len(g.failed), names)
	case g.reason != "":
		return fmt.Sprintf("%s FAILED %s, %s", line, cases, g.reason)
	default:
		return line + " ok " + cases
	}
}

func (r *report) print(out io.Writer, expected []int) (bool, error) {
	var w strings.Builder
	gates := r.gates(expected)
	passed, cases := 0, 0
	for _, g := range gates {
		fmt.Fprintln(&w, g)
		cases += g.cases
		if g.reason == "" && len(g.failed) == 0 {
			passed++
		}
	}
	// What belongs to no gate, such as a panic or a failed build, fails the run.
	ok := passed == len(gates) && !r.broken
	if !ok {
		r.printFailures(&w)
	}
	fmt.Fprintf(&w, "%d of %d gates passed, %d cases\n", passed, len(gates), cases)
	_, err := io.WriteString(out, w.String())
	return ok, err
}

// printFailures repeats what tests that did not pass had to say.
func (r *report) printFailures(w *strings.Builder) {
	for _, name := range slices.Sorted(maps.Keys(r.tests)) {
		if t := r.tests[name]; t.action != "pass" && t.output.Len() > 0 {
			fmt.Fprintf(w, "\n%s", t.output.String())
		}
	}
	if text := strings.TrimSpace(r.loose.String()); text != "" {
		fmt.Fprintf(w, "\n%s\n", text)
	}
	fmt.Fprintln(w)
}

// kebab turns CrashAtEveryStep into crash-at-every-step and MCPSDKImport into
// mcpsdk-import.
func kebab(camel string) string {
	var b strings.Builder
	runes := []rune(camel)
	for i, c := range runes {
		startsWord := i > 0 && unicode.IsUpper(c) &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if startsWord && runes[i-1] != '_' {
			b.WriteByte('-')
		}
		if c == '_' {
			c = '-'
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
