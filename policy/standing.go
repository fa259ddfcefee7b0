package policy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/toolbus/toolbus/tool"
)

// ErrStanding says that a standing authorization is malformed.
var ErrStanding = errors.New("standing authorization is invalid")

// Standing is an approval given in advance: calls of one principal to one tool,
// or to the tools of one MCP server, whose arguments fulfil a condition. Expiry
// and revocation are for whoever stores it.
type Standing struct {
	ID        tool.ID
	Principal string
	// Tool is a registry name or mcp.<server>.*.
	Tool string
	// Condition is CEL over the variables of a profile; empty means always.
	Condition string
}

// CompiledStanding is a [Standing] ready to be asked. It is immutable and safe
// for concurrent use.
type CompiledStanding struct {
	id        tool.ID
	principal string
	tool      string // a name, or a prefix that ends in a dot
	when      *condition
}

var standingTool = regexp.MustCompile(`^(mcp\.[a-z][a-z0-9_]*\.\*|[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+)$`)

// CompileStanding checks an authorization; every error is an [ErrStanding].
func CompileStanding(s Standing) (*CompiledStanding, error) {
	if s.Principal == "" {
		return nil, fmt.Errorf("%w: no principal", ErrStanding)
	}
	if !standingTool.MatchString(s.Tool) {
		return nil, fmt.Errorf("%w: tool is neither a registry name nor mcp.<server>.*", ErrStanding)
	}
	source := s.Condition
	if source == "" {
		source = "true"
	}
	c, err := newCompiler()
	if err != nil {
		return nil, err
	}
	when, err := c.compile(source)
	if err != nil {
		return nil, fmt.Errorf("%w: condition: %w", ErrStanding, err)
	}
	return &CompiledStanding{
		id: s.ID, principal: s.Principal, tool: strings.TrimSuffix(s.Tool, "*"), when: when,
	}, nil
}

// ID gives the identity of the authorization.
func (s *CompiledStanding) ID() tool.ID { return s.id }

// Matches reports whether the authorization covers the call. A condition that
// fails to evaluate does not: the call falls back to an interactive approval.
func (s *CompiledStanding) Matches(_ context.Context, in Input) bool {
	return s.matches(newVariables(&in))
}

func (s *CompiledStanding) matches(vars *variables) bool {
	if s == nil || s.principal != vars.in.Principal.ID || !s.covers(vars.in.Spec) {
		return false
	}
	matched, err := s.when.eval(vars)
	return err == nil && matched
}

func (s *CompiledStanding) covers(spec tool.Spec) bool {
	if strings.HasSuffix(s.tool, ".") {
		return spec.Source == tool.MCP && strings.HasPrefix(spec.Name, s.tool)
	}
	return spec.Name == s.tool
}
