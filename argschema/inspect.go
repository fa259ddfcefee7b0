package argschema

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/toolbus/toolbus/canonical"
)

// inspector reads a decoded schema before it is compiled: it measures it and
// refuses what no tool schema needs and a hostile one would use. It knows which
// keywords hold schemas, so that a property called "$ref" or an enum member
// {"$id": …} is left in peace.
type inspector struct {
	Options
	dialect  Dialect
	patterns *patterns
	// base is the root's own $id, by which a reference may name the document.
	base  string
	nodes int
}

// inspect checks the document whose root is given and says its dialect.
func inspect(root map[string]any, o Options, p *patterns) (Dialect, *SchemaError) {
	dialect, err := dialectOf(root, o.Dialects)
	if err != nil {
		return "", err
	}
	i := inspector{Options: o, dialect: dialect, patterns: p}
	if id, ok := root["$id"].(string); ok {
		i.base, _, _ = strings.Cut(id, "#")
	}
	if err := i.measure(root, 1); err != nil {
		return "", err
	}
	return dialect, i.schema(root, "")
}

func dialectOf(root map[string]any, allowed []Dialect) (Dialect, *SchemaError) {
	declared := Draft2020
	if v, ok := root["$schema"]; ok {
		text, _ := v.(string)
		declared = Dialect(strings.TrimSuffix(text, "#"))
	}
	for _, d := range allowed {
		if d == declared {
			return d, nil
		}
	}
	return "", &SchemaError{ReasonDialect, "/$schema"}
}

// measure counts values and nesting, whatever they mean.
func (i *inspector) measure(v any, depth int) *SchemaError {
	i.nodes++
	if over(i.nodes, i.MaxNodes) {
		return &SchemaError{Reason: ReasonTooLarge}
	}
	switch v := v.(type) {
	case map[string]any:
		if over(depth, i.MaxDepth) {
			return &SchemaError{Reason: ReasonTooDeep}
		}
		for _, child := range v {
			if err := i.measure(child, depth+1); err != nil {
				return err
			}
		}
	case []any:
		if over(depth, i.MaxDepth) {
			return &SchemaError{Reason: ReasonTooDeep}
		}
		for _, child := range v {
			if err := i.measure(child, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func over(n, limit int) bool { return limit > 0 && n > limit }

// schema checks one schema object and everything below it; other values are the
// meta-schema's business.
func (i *inspector) schema(v any, path string) *SchemaError {
	object, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	if path != "" {
		if err := i.embedded(object, path); err != nil {
			return err
		}
	}
	for keyword, value := range object {
		at := canonical.AppendToken(path, keyword)
		if err := i.keyword(keyword, value, at); err != nil {
			return err
		}
		if err := i.descend(keyword, value, at); err != nil {
			return err
		}
	}
	return nil
}

// embedded refuses a subschema that would be a schema resource of its own.
func (i *inspector) embedded(object map[string]any, path string) *SchemaError {
	for _, keyword := range []string{"$schema", "$id"} {
		v, ok := object[keyword]
		if !ok {
			continue
		}
		// Before 2019-09, "$id": "#name" is how an anchor is spelled.
		id, _ := v.(string)
		if keyword == "$id" && !i.dialect.hasUnevaluated() && strings.HasPrefix(id, "#") {
			continue
		}
		return &SchemaError{ReasonEmbedded, canonical.AppendToken(path, keyword)}
	}
	return nil
}

func (i *inspector) keyword(keyword string, v any, at string) *SchemaError {
	switch keyword {
	case "$vocabulary":
		return &SchemaError{ReasonEmbedded, at}
	case "$ref", "$dynamicRef", "$recursiveRef":
		if ref, ok := v.(string); ok && !i.local(ref) {
			return &SchemaError{ReasonRemoteRef, at}
		}
	case "pattern":
		if pattern, ok := v.(string); ok {
			return i.pattern(pattern, at)
		}
	case "patternProperties":
		object, _ := v.(map[string]any)
		for pattern := range object {
			if err := i.pattern(pattern, at); err != nil {
				return err
			}
		}
	case "properties":
		if object, _ := v.(map[string]any); over(len(object), i.MaxProperties) {
			return &SchemaError{ReasonTooLarge, at}
		}
	case "enum":
		if list, _ := v.([]any); over(len(list), i.MaxEnum) {
			return &SchemaError{ReasonTooLarge, at}
		}
	case "minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties":
		// The library keeps the low 64 bits of a larger bound.
		if n, ok := v.(json.Number); ok && len(n) > len("999999999999999999") {
			return &SchemaError{ReasonInvalid, at}
		}
	}
	return nil
}

func (i *inspector) local(ref string) bool {
	base, _, _ := strings.Cut(ref, "#")
	return base == "" || base == i.base
}

func (i *inspector) pattern(pattern, at string) *SchemaError {
	if over(len(pattern), i.MaxPattern) {
		return &SchemaError{ReasonTooLarge, at}
	}
	_, err := i.patterns.compile(pattern)
	switch {
	case errors.Is(err, errPatternCost):
		return &SchemaError{ReasonTooCostly, at}
	case err != nil:
		return &SchemaError{ReasonPattern, at}
	}
	return nil
}

// descend goes into the schemas that a keyword holds.
func (i *inspector) descend(keyword string, v any, at string) *SchemaError {
	switch keyword {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		object, _ := v.(map[string]any)
		for name, child := range object {
			if err := i.schema(child, canonical.AppendToken(at, name)); err != nil {
				return err
			}
		}
	case "allOf", "anyOf", "oneOf", "prefixItems", "items", "additionalItems", "additionalProperties", "contains",
		"propertyNames", "not", "if", "then", "else", "unevaluatedItems", "unevaluatedProperties", "contentSchema":
		list, isList := v.([]any)
		if !isList {
			return i.schema(v, at)
		}
		for n, child := range list {
			if err := i.schema(child, at+"/"+strconv.Itoa(n)); err != nil {
				return err
			}
		}
	}
	return nil
}
