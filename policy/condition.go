package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

const (
	// costLimit bounds one evaluation, in CEL's own unit, about a step each: some
	// milliseconds, since counting the steps grows faster than their number. A
	// condition over arguments of a few kilobytes stays far below it.
	costLimit = 20_000
	// maximumConditionRunes bounds the source of one condition.
	maximumConditionRunes = 8 << 10
	maximumConditionNodes = 4 << 10
	maximumRegexProgram   = 1 << 10
)

var (
	errNotBool   = errors.New("condition yields no bool")
	errUndecided = errors.New("condition depends on what is not known yet")
)

// condition is a compiled CEL expression.
type condition struct {
	program cel.Program
	// partial evaluates with unknown variables; nil where the condition has none.
	partial cel.Program
	// usesArguments says that the arguments have to be decoded first.
	usesArguments bool
}

// compiler turns sources into conditions. It is used while a profile loads.
type compiler struct{ env *cel.Env }

func newCompiler() (*compiler, error) {
	options := []cel.EnvOption{
		cel.ParserExpressionSizeLimit(maximumConditionRunes),
		cel.ExpressionNodeLimit(maximumConditionNodes),
		cel.RegexProgramSizeLimit(maximumRegexProgram),
	}
	for name, v := range variableTable {
		options = append(options, cel.Variable(name, v.typ))
	}
	env, err := cel.NewEnv(append(options, orderFunctions()...)...)
	if err != nil {
		return nil, fmt.Errorf("policy environment: %w", err)
	}
	return &compiler{env: env}, nil
}

// compile checks a condition as far as it can be checked without a call.
func (c *compiler) compile(source string) (*condition, error) {
	checked, issues := c.env.Compile(source)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	if checked.OutputType() != cel.BoolType {
		return nil, errNotBool
	}
	if err := checkVocabulary(checked.NativeRep().Expr()); err != nil {
		return nil, err
	}
	used, loops := inspect(checked.NativeRep().Expr())
	cond := &condition{usesArguments: slices.ContainsFunc(used, needsArguments)}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if cond.usesArguments || loops {
		// Everything else is bounded by the length of its source.
		options = append(options, cel.CostLimit(costLimit))
	}
	var err error
	if cond.program, err = c.env.Program(checked, options...); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(used, unknownAtOpening) {
		cond.partial, err = c.env.Program(checked, cel.EvalOptions(cel.OptOptimize, cel.OptPartialEval), cel.CostLimit(costLimit))
		if err != nil {
			return nil, err
		}
	}
	return cond, nil
}

// inspect lists the variables an expression reads and whether it loops.
func inspect(root ast.Expr) (used []string, loops bool) {
	ast.PreOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		switch {
		case e.Kind() == ast.ComprehensionKind:
			loops = true
		case e.Kind() == ast.IdentKind:
			used = append(used, variableName(e))
		}
	}))
	return used, loops
}

// variableName gives the name of the variable an identifier stands for; a
// leading dot only says that a loop variable of the same name is not meant.
func variableName(e ast.Expr) string { return strings.TrimPrefix(e.AsIdent(), ".") }

// eval decides the condition. Whatever is not a plain true or false is an error.
func (c *condition) eval(vars *variables) (bool, error) {
	if c.usesArguments {
		if err := vars.decode(); err != nil {
			return false, err
		}
	}
	return run(c.program, vars)
}

// decide evaluates with what is known before any call: errUndecided says that
// the rest matters.
func (c *condition) decide(vars *variables) (bool, error) {
	if c.partial == nil {
		return run(c.program, vars)
	}
	known, err := cel.PartialVars(vars, unknownPatterns()...)
	if err != nil {
		return false, err
	}
	return run(c.partial, known)
}

func run(program cel.Program, vars any) (bool, error) {
	out, _, err := program.Eval(vars)
	switch {
	case err != nil:
		return false, err
	case types.IsUnknown(out):
		return false, errUndecided
	}
	matched, ok := out.(types.Bool)
	if !ok {
		return false, errNotBool
	}
	return bool(matched), nil
}
