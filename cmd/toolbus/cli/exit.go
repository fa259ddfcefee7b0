package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/toolbus/toolbus/internal/ui"
)

// The exit codes (the contract, section 8).
const (
	exitDone         = 0
	exitFailed       = 1
	exitWrongUse     = 2
	exitNotSucceeded = 3
)

// errNotSucceeded ends a command whose call has another outcome than succeeded.
// What is to be said about it has been said.
var errNotSucceeded = errors.New("the call did not succeed")

// errFound ends a command that found problems and has listed them.
var errFound = errors.New("problems were found")

// useError says that the command was called wrongly.
type useError struct{ err error }

func (e *useError) Error() string { return e.err.Error() }
func (e *useError) Unwrap() error { return e.err }

func wrongUse(format string, args ...any) error { return &useError{err: fmt.Errorf(format, args...)} }

// advisedError is an error with what to do about it.
type advisedError struct {
	err    error
	advice string
}

func (e *advisedError) Error() string { return e.err.Error() }
func (e *advisedError) Unwrap() error { return e.err }

// advise adds what to do next to an error.
func advise(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &advisedError{err: err, advice: fmt.Sprintf(format, args...)}
}

// helpOf names the help for the command that was called wrongly, as far as it was
// understood.
func helpOf(err error) string {
	var parse *kong.ParseError
	if !errors.As(err, &parse) || parse.Context == nil {
		return "--help"
	}
	var words []string
	for _, at := range parse.Context.Path {
		if at.Command != nil {
			words = append(words, at.Command.Name)
		}
	}
	return strings.Join(append(words, "--help"), " ")
}

// report says what went wrong and gives the exit code.
func (p *process) report(err error) int {
	var use *useError
	var advised *advisedError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errNotSucceeded):
		return exitNotSucceeded
	case errors.Is(err, errFound):
		return exitFailed
	}
	said := err.Error()
	if errors.Is(err, context.Canceled) {
		said = "interrupted"
	}
	p.err.Printf("%s %s\n", p.err.Paint(ui.Red, "toolbus:"), ui.EscapeLines(said))
	if errors.As(err, &advised) {
		p.err.Printf("%s %s\n", p.err.Paint(ui.Cyan, "next:"), advised.advice)
	}
	if errors.As(err, &use) {
		p.err.Printf("%s %s\n", p.err.Paint(ui.Cyan, "next:"), p.command(helpOf(err)))
		return exitWrongUse
	}
	return exitFailed
}
