package policy

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/toolbus/toolbus/tool"
)

// orderFunction is a comparison of two words by their rank.
type orderFunction struct {
	name  string
	rank  func(word string) int
	holds func(a, b int) bool
}

func trustRank(word string) int { return tool.Trust(word).Rank() }
func riskRank(word string) int  { return tool.Risk(word).Rank() }

func orderTable() []orderFunction {
	atLeast := func(a, b int) bool { return a >= b }
	return []orderFunction{
		{"trust_at_least", trustRank, atLeast},
		{"trust_below", trustRank, func(a, b int) bool { return a < b }},
		{"risk_at_least", riskRank, atLeast},
		{"risk_at_most", riskRank, func(a, b int) bool { return a <= b }},
	}
}

// orderFunctions declares the comparisons. A word without a rank is an error,
// since either answer would be the permissive one somewhere.
func orderFunctions() []cel.EnvOption {
	var options []cel.EnvOption
	for _, f := range orderTable() {
		binding := func(a, b ref.Val) ref.Val {
			left, okA := a.(types.String)
			right, okB := b.(types.String)
			if !okA || !okB {
				return types.NewErr("%s: not strings", f.name)
			}
			ra, rb := f.rank(string(left)), f.rank(string(right))
			if ra < 0 || rb < 0 {
				return types.NewErr("%s: a word outside the closed set", f.name)
			}
			return types.Bool(f.holds(ra, rb))
		}
		options = append(options, cel.Function(f.name, cel.Overload(f.name+"_string_string",
			[]*cel.Type{cel.StringType, cel.StringType}, cel.BoolType, cel.BinaryBinding(binding))))
	}
	return options
}

// checkVocabulary finds literals that can never be the value they are compared
// with. Such a comparison is silently false, and a rule that denies by it is
// silently off.
func checkVocabulary(root ast.Expr) error {
	var found error
	ast.PreOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		if found == nil && e.Kind() == ast.CallKind {
			found = checkCall(e.AsCall())
		}
	}))
	return found
}

func checkCall(call ast.CallExpr) error {
	for _, f := range orderTable() {
		if f.name == call.FunctionName() {
			return checkWords(call.Args(), f.name, func(word string) bool { return f.rank(word) >= 0 })
		}
	}
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals, operators.In:
	default:
		return nil
	}
	for _, arg := range call.Args() {
		if arg.Kind() != ast.IdentKind {
			continue
		}
		name := variableName(arg)
		if v := variableTable[name]; v.vocabulary != nil {
			return checkWords(call.Args(), name, v.vocabulary)
		}
	}
	return nil
}

// checkWords looks at the string literals among args, and in lists among them.
func checkWords(args []ast.Expr, subject string, valid func(string) bool) error {
	for _, arg := range args {
		if arg.Kind() == ast.ListKind {
			if err := checkWords(arg.AsList().Elements(), subject, valid); err != nil {
				return err
			}
			continue
		}
		if arg.Kind() != ast.LiteralKind {
			continue
		}
		if word, ok := arg.AsLiteral().(types.String); ok && !valid(string(word)) {
			return fmt.Errorf("%q is no word of %s", string(word), subject)
		}
	}
	return nil
}
