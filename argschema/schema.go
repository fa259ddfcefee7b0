package argschema

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolbus/toolbus/canonical"
)

// MaximumBytes limits arguments, as they are sent and in canonical form.
const MaximumBytes = 1 << 20

// Schema is a compiled input schema. It is immutable but for its quarantine and
// safe for concurrent use.
type Schema struct {
	dialect  Dialect
	mode     closure
	declared *jsonschema.Schema
	// presets says that there are defaults to fill.
	presets bool
	guard   guard
}

// Dialect gives the dialect the schema was compiled under.
func (s *Schema) Dialect() Dialect { return s.dialect }

// Closed reports whether undeclared root properties are subject to a check:
// false only for a draft-06 or draft-07 schema that leaves the matter open and
// has applicators at its root.
func (s *Schema) Closed() bool { return s.mode != leftOpen }

// Arguments gives the canonical bytes of the arguments with their defaults
// filled in: what is hashed, stored, approved and sent. Arguments of its own
// result gives the same bytes. raw is not changed. The error is an
// [*ArgumentError], fit to be shown to the caller, or [ErrQuarantined].
func (s *Schema) Arguments(raw json.RawMessage) (form []byte, err error) {
	if len(raw) > MaximumBytes {
		return nil, tooLarge()
	}
	v, err := canonical.Parse(raw)
	if err != nil {
		return nil, fromCanonical(err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, &ArgumentError{Rule: "type: must be object"}
	}
	if s.presets && !fill(s.declared, object) {
		return nil, &ArgumentError{Rule: "default: must not need so many defaults"}
	}
	if s.mode == closedByName {
		if err := s.declaredOnly(object); err != nil {
			return nil, err
		}
	}
	if err := s.guard.run(object); err != nil {
		return nil, err
	}
	if form, err = canonical.Encode(object); err != nil {
		return nil, fromCanonical(err)
	}
	if len(form) > MaximumBytes {
		return nil, tooLarge()
	}
	return form, nil
}

func tooLarge() error {
	return &ArgumentError{Rule: fmt.Sprintf("json: must have at most %d bytes", MaximumBytes)}
}

// declaredOnly refuses the first property, in order of names, that the root
// neither names nor matches.
func (s *Schema) declaredOnly(object map[string]any) error {
	var undeclared []string
	for name := range object {
		if !s.declares(name) {
			undeclared = append(undeclared, name)
		}
	}
	if len(undeclared) == 0 {
		return nil
	}
	return &ArgumentError{Path: pointer([]string{slices.Min(undeclared)}), Rule: ruleUndeclared}
}

func (s *Schema) declares(name string) bool {
	if _, ok := s.declared.Properties[name]; ok {
		return true
	}
	for pattern := range s.declared.PatternProperties {
		if pattern.MatchString(name) {
			return true
		}
	}
	return false
}
