package argschema

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	ruleUndeclared  = "additionalProperties: property is not declared"
	ruleUnevaluated = "unevaluatedProperties: property is not declared"
)

// verdict turns an error of the schema library into an argument error. The
// library's own text quotes the document and is dropped.
func verdict(err error) error {
	if err == nil {
		return nil
	}
	var violation *jsonschema.ValidationError
	if !errors.As(err, &violation) {
		return &ArgumentError{Rule: "schema: must be valid"}
	}
	leaf := mostSpecific(violation)
	return &ArgumentError{Path: pointer(leaf.tokens), Rule: leaf.rule()}
}

// leaf is one violation out of a tree of them.
type leaf struct {
	tokens []string
	kind   jsonschema.ErrorKind
	// undeclared says that additionalProperties or unevaluatedProperties refused
	// a property.
	undeclared bool
}

// mostSpecific chooses the violation to report: the first in the order of the
// document, a missing declaration last since another violation often causes it.
// The library's order follows Go's maps; this one does not.
func mostSpecific(e *jsonschema.ValidationError) leaf {
	leaves := collect(nil, e)
	return slices.MinFunc(leaves, func(a, b leaf) int {
		return cmp.Or(
			compareBool(a.undeclared, b.undeclared),
			slices.CompareFunc(a.tokens, b.tokens, compareTokens),
			cmp.Compare(a.rule(), b.rule()),
		)
	})
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// compareTokens puts array indices into numeric order.
func compareTokens(a, b string) int {
	n, errA := strconv.Atoi(a)
	m, errB := strconv.Atoi(b)
	if errA == nil && errB == nil {
		return cmp.Compare(n, m)
	}
	return strings.Compare(a, b)
}

func collect(leaves []leaf, e *jsonschema.ValidationError) []leaf {
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		if inner, ok := likelyBranch(e); ok {
			return append(leaves, inner)
		}
	case *kind.Contains, *kind.MinContains:
		// The items that do not match are no violations of their own.
	case *kind.AdditionalProperties:
		tokens := append(slices.Clone(e.InstanceLocation), slices.Min(k.Properties))
		return append(leaves, leaf{tokens: tokens, kind: k, undeclared: true})
	case *kind.PropertyNames:
		tokens := append(slices.Clone(e.InstanceLocation), k.Property)
		return append(leaves, leaf{tokens: tokens, kind: k})
	default:
		for _, cause := range e.Causes {
			leaves = collect(leaves, cause)
		}
		if len(e.Causes) > 0 {
			return leaves
		}
	}
	_, refused := e.ErrorKind.(*kind.FalseSchema)
	undeclared := refused && strings.HasSuffix(e.SchemaURL, "/unevaluatedProperties")
	return append(leaves, leaf{tokens: e.InstanceLocation, kind: e.ErrorKind, undeclared: undeclared})
}

// likelyBranch looks for the one alternative that the document seems to mean:
// the only one that it does not already fail by type or constant.
func likelyBranch(e *jsonschema.ValidationError) (leaf, bool) {
	var found []leaf
	for _, cause := range e.Causes {
		inner := mostSpecific(cause)
		switch inner.kind.(type) {
		case *kind.Type, *kind.Const, *kind.Enum, *kind.FalseSchema:
			if len(inner.tokens) <= len(e.InstanceLocation)+1 {
				continue
			}
		}
		found = append(found, inner)
	}
	if len(found) != 1 {
		return leaf{}, false
	}
	return found[0], true
}

// rule phrases a violation from its keyword and what the schema says.
func (l leaf) rule() string {
	switch k := l.kind.(type) {
	case *kind.Type:
		return "type: must be " + strings.Join(k.Want, " or ")
	case *kind.Required:
		return missing("required", k.Missing)
	case *kind.DependentRequired:
		return missing("dependentRequired", k.Missing)
	case *kind.Dependency:
		return missing("dependencies", k.Missing)
	case *kind.AdditionalProperties:
		return ruleUndeclared
	case *kind.FalseSchema:
		if l.undeclared {
			return ruleUnevaluated
		}
		return "false: must not be present"
	case *kind.PropertyNames:
		return "propertyNames: must be an allowed name"
	case *kind.Enum:
		return "enum: must be one of the declared values"
	case *kind.Const:
		return "const: must be the declared value"
	case *kind.OneOf:
		if len(k.Subschemas) > 1 {
			return "oneOf: must match one alternative only"
		}
		return "oneOf: must match one alternative"
	case *kind.AnyOf:
		return "anyOf: must match an alternative"
	case *kind.Not:
		return "not: must not match the excluded schema"
	case *kind.Format:
		return "format: must be " + label(k.Want)
	case *kind.Pattern:
		return "pattern: must match the declared pattern"
	}
	return l.size()
}

func missing(keyword string, names []string) string {
	if len(names) == 0 {
		return keyword + ": a property is missing"
	}
	return fmt.Sprintf("%s: property %q is missing", keyword, label(slices.Min(names)))
}

// size phrases the violations of a bound.
func (l leaf) size() string {
	switch k := l.kind.(type) {
	case *kind.MinLength:
		return fmt.Sprintf("minLength: must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("maxLength: must have at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("minItems: must have at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("maxItems: must have at most %d items", k.Want)
	case *kind.AdditionalItems:
		return "additionalItems: must have fewer items"
	case *kind.UniqueItems:
		return "uniqueItems: must not have equal items"
	case *kind.Contains:
		return "contains: must have a matching item"
	case *kind.MinContains:
		return fmt.Sprintf("minContains: must have at least %d matching items", k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("maxContains: must have at most %d matching items", k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("minProperties: must have at least %d properties", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("maxProperties: must have at most %d properties", k.Want)
	case *kind.Minimum:
		return "minimum: must be at least " + bound(k.Want)
	case *kind.Maximum:
		return "maximum: must be at most " + bound(k.Want)
	case *kind.ExclusiveMinimum:
		return "exclusiveMinimum: must be greater than " + bound(k.Want)
	case *kind.ExclusiveMaximum:
		return "exclusiveMaximum: must be less than " + bound(k.Want)
	case *kind.MultipleOf:
		return "multipleOf: must be a multiple of " + bound(k.Want)
	}
	return "schema: must be valid"
}

// bound writes a number of the schema, the ones nobody reads as a phrase.
func bound(n *big.Rat) string {
	var text string
	if n.IsInt() {
		text = n.Num().String()
	} else {
		f, _ := n.Float64()
		text = strconv.FormatFloat(f, 'g', -1, 64)
	}
	if len(text) > 32 {
		return "the declared number"
	}
	return text
}
