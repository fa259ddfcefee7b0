package argschema

import (
	"iter"
	"math"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// inPlace yields the schemas that apply to the same value as s: all of them,
// whether or not a validation would come to each.
func inPlace(s *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		one := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
		if s.DynamicRef != nil {
			one = append(one, s.DynamicRef.Ref)
		}
		for _, list := range [][]*jsonschema.Schema{one, s.AllOf, s.AnyOf, s.OneOf} {
			if !yieldAll(list, yield) {
				return
			}
		}
		for _, child := range s.DependentSchemas {
			if !yield(child) {
				return
			}
		}
		for _, dependency := range s.Dependencies {
			if child, ok := dependency.(*jsonschema.Schema); ok && !yield(child) {
				return
			}
		}
	}
}

func yieldAll(list []*jsonschema.Schema, yield func(*jsonschema.Schema) bool) bool {
	for _, s := range list {
		if s != nil && !yield(s) {
			return false
		}
	}
	return true
}

// below yields the schemas that apply to what lies in the value: members,
// names, items.
func below(s *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		list := append(itemSchemas(s), memberSchemas(s)...)
		for _, child := range s.Properties {
			list = append(list, child)
		}
		for _, child := range s.PatternProperties {
			list = append(list, child)
		}
		yieldAll(list, yield)
	}
}

// memberSchemas gives the schemas for members of an object that are not chosen
// by name.
func memberSchemas(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties}
	if child, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		list = append(list, child)
	}
	return list
}

// itemSchemas gives the schemas for items of an array, by position or not.
func itemSchemas(s *jsonschema.Schema) []*jsonschema.Schema {
	list := append([]*jsonschema.Schema{s.Items2020, s.Contains, s.UnevaluatedItems}, s.PrefixItems...)
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		list = append(list, items)
	case []*jsonschema.Schema:
		list = append(list, items...)
	}
	if child, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
		list = append(list, child)
	}
	return list
}

// expanded is the size to which a schema may unfold before the work of each
// document is counted.
const expanded = 10_000

// survey walks the graph of a compiled schema.
type survey struct {
	limit int
	// costs holds the in-place cost of each schema, visiting while it is open.
	costs map[*jsonschema.Schema]int
	// sizes holds how many schemas each one unfolds to, visiting while it is open.
	sizes map[*jsonschema.Schema]int
}

const visiting = -1

// examine refuses a graph that is too costly at one location or that leaves the
// document, and reports whether it recurses or unfolds to a great size.
func examine(root *jsonschema.Schema, maxCost int) (multiplies bool, err *SchemaError) {
	if maxCost == 0 {
		maxCost = math.MaxInt32
	}
	sv := survey{limit: maxCost, costs: map[*jsonschema.Schema]int{}, sizes: map[*jsonschema.Schema]int{}}
	multiplies = sv.size(root) > expanded
	for s := range sv.sizes {
		if !strings.HasPrefix(s.Location, baseURL) {
			return false, &SchemaError{Reason: ReasonRemoteRef}
		}
		if cost := sv.cost(s); cost > sv.limit {
			return false, &SchemaError{Reason: ReasonTooCostly}
		}
	}
	return multiplies, nil
}

// cost counts the schemas that apply at one location; a cycle among them would
// never end and is over every limit.
func (sv *survey) cost(s *jsonschema.Schema) int {
	if known, ok := sv.costs[s]; ok {
		if known == visiting {
			return sv.limit + 1
		}
		return known
	}
	sv.costs[s] = visiting
	total := 1
	for child := range inPlace(s) {
		total = min(total+sv.cost(child), sv.limit+1)
	}
	sv.costs[s] = total
	return total
}

// size counts the schemas that s unfolds to, more than expanded if it recurses.
// It comes to every schema that can be reached.
func (sv *survey) size(s *jsonschema.Schema) int {
	if known, ok := sv.sizes[s]; ok {
		if known == visiting {
			return expanded + 1
		}
		return known
	}
	sv.sizes[s] = visiting
	total := 1
	for child := range inPlace(s) {
		total = min(total+sv.size(child), expanded+1)
	}
	for child := range below(s) {
		total = min(total+sv.size(child), expanded+1)
	}
	sv.sizes[s] = total
	return total
}
