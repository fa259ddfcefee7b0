// Command gatereport reads the output of `go test -json` about the gates from
// standard input and prints one line per gate:
//
//	gate 07 crash-at-every-step ok 112 cases
//	gate 08 double-submission FAILED 4 cases, 1 failed: two_submitters
//
// A case is a subtest that has no subtests. A gate that ran none, skipped one,
// or is missing altogether has failed. What failed tests printed follows at the
// end, and the exit code is 1.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
)

func main() {
	list := flag.String("gates", "", "numbers of the gates that there must be, comma-separated")
	flag.Parse()
	expected, err := numbers(*list)
	passed := false
	if err == nil {
		passed, err = run(os.Stdin, os.Stdout, expected)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gatereport:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

func numbers(list string) ([]int, error) {
	var out []int
	for field := range strings.SplitSeq(list, ",") {
		if field == "" {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil {
			return nil, fmt.Errorf("-gates: %q is no number", field)
		}
		out = append(out, n)
	}
	return out, nil
}
