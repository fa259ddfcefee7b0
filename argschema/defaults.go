package argschema

import (
	"maps"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolbus/toolbus/canonical"
)

// The limits of filling one document: how many defaults it may receive, and how
// many times an array or object may be looked at. Only a schema whose defaults
// bring forth places for further defaults comes near the first, only one that
// recurses in several ways at once near the second.
const (
	maximumFilled = 10_000
	maximumVisits = 1_000_000
)

// filler writes defaults into a document, in place. What it adds is a pure
// function of schema and document, and filling twice is filling once: a default
// that was set is itself filled.
type filler struct{ fills, visits int }

// fill reports whether the document stayed within the limits.
func fill(s *jsonschema.Schema, v any) bool {
	f := filler{fills: maximumFilled, visits: maximumVisits}
	return f.value(s, v, 1)
}

func (f *filler) value(s *jsonschema.Schema, v any, depth int) bool {
	if s == nil {
		return true
	}
	if f.visits--; f.visits < 0 {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for name, property := range s.Properties {
			if !f.property(property, v, name, depth) {
				return false
			}
		}
	case []any:
		for i, item := range v {
			if !f.value(itemSchema(s, i), item, depth+1) {
				return false
			}
		}
	default:
		return true
	}
	for s := range unconditional(s) {
		if !f.value(s, v, depth) {
			return false
		}
	}
	return true
}

func (f *filler) property(s *jsonschema.Schema, object map[string]any, name string, depth int) bool {
	member, present := object[name]
	if !present {
		preset := defaultOf(s)
		if preset == nil {
			return true
		}
		if f.fills--; f.fills < 0 || depth > canonical.MaximumDepth {
			return false
		}
		member = clone(*preset)
		object[name] = member
	}
	return f.value(s, member, depth+1)
}

// unconditional yields the schemas that apply to a value whenever s does.
func unconditional(s *jsonschema.Schema) func(yield func(*jsonschema.Schema) bool) {
	return func(yield func(*jsonschema.Schema) bool) {
		references := [...]*jsonschema.Schema{s.Ref, s.RecursiveRef, nil}
		if s.DynamicRef != nil {
			references[2] = s.DynamicRef.Ref
		}
		if yieldAll(references[:], yield) {
			yieldAll(s.AllOf, yield)
		}
	}
}

// itemSchema gives the schema for the item at index i, nil if there is none.
func itemSchema(s *jsonschema.Schema, i int) *jsonschema.Schema {
	if i < len(s.PrefixItems) {
		return s.PrefixItems[i]
	}
	if s.Items2020 != nil {
		return s.Items2020
	}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		return items
	case []*jsonschema.Schema:
		if i < len(items) {
			return items[i]
		}
		additional, _ := s.AdditionalItems.(*jsonschema.Schema)
		return additional
	}
	return nil
}

// defaultOf gives the default of a schema or of what it refers to.
func defaultOf(s *jsonschema.Schema) *any {
	if s.Default != nil {
		return s.Default
	}
	for s := range unconditional(s) {
		if preset := defaultOf(s); preset != nil {
			return preset
		}
	}
	return nil
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		object := maps.Clone(v)
		for name, member := range object {
			object[name] = clone(member)
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = clone(item)
		}
		return list
	}
	return v
}

// checkDefaults refuses a schema with a default that the filler may set and
// that, filled itself, breaks its own subschema: every call would fail by it. It
// reports whether there is any default to fill. The graph under s has passed
// examine.
func checkDefaults(s *jsonschema.Schema) (presets bool, err *SchemaError) {
	c := defaultChecker{seen: map[*jsonschema.Schema]bool{}}
	err = c.visit(s)
	return c.presets, err
}

type defaultChecker struct {
	seen    map[*jsonschema.Schema]bool
	presets bool
}

func (c *defaultChecker) visit(s *jsonschema.Schema) *SchemaError {
	if c.seen[s] {
		return nil
	}
	c.seen[s] = true
	for _, property := range s.Properties {
		if err := c.property(property); err != nil {
			return err
		}
	}
	for _, items := range itemSchemas(s) {
		if items == nil || items == s.Contains || items == s.UnevaluatedItems {
			continue
		}
		if err := c.visit(items); err != nil {
			return err
		}
	}
	for child := range unconditional(s) {
		if err := c.visit(child); err != nil {
			return err
		}
	}
	return nil
}

func (c *defaultChecker) property(s *jsonschema.Schema) *SchemaError {
	if preset := defaultOf(s); preset != nil && !c.seen[s] {
		c.presets = true
		v := clone(*preset)
		if !fill(s, v) || !affordable(s, v) || s.Validate(v) != nil {
			return &SchemaError{ReasonBadDefault, schemaPath(s)}
		}
	}
	return c.visit(s)
}

// schemaPath gives where a schema stands in its document.
func schemaPath(s *jsonschema.Schema) string {
	_, fragment, _ := strings.Cut(s.Location, "#")
	if fragment == "" {
		return ""
	}
	tokens := strings.Split(fragment[1:], "/")
	for i, token := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	return pointer(tokens)
}
