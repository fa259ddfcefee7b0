package argschema

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// patterns compiles the regular expressions of one schema, each once, and keeps
// account of their size: RE2 does not backtrack, but nested repetitions unfold,
// so that a line of text can become a program of a million instructions.
type patterns struct {
	limit    int
	spent    int
	compiled map[string]*regexp.Regexp
}

var errPatternCost = errors.New("regular expressions unfold beyond the limit")

func newPatterns(limit int) *patterns {
	return &patterns{limit: limit, compiled: map[string]*regexp.Regexp{}}
}

// engine is compile for the schema library.
func (p *patterns) engine(pattern string) (jsonschema.Regexp, error) { return p.compile(pattern) }

func (p *patterns) compile(pattern string) (*regexp.Regexp, error) {
	if known, ok := p.compiled[pattern]; ok {
		return known, nil
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if p.spent += unfolded(tree); over(p.spent, p.limit) {
		return nil, errPatternCost
	}
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	p.compiled[pattern] = expression
	return expression, nil
}

// unfolded estimates the instructions of a regular expression.
func unfolded(tree *syntax.Regexp) int {
	total := 1
	if tree.Op == syntax.OpLiteral {
		total = len(tree.Rune)
	}
	for _, sub := range tree.Sub {
		total += unfolded(sub)
	}
	if tree.Op == syntax.OpRepeat {
		total *= max(1, tree.Min, tree.Max)
	}
	return total
}
