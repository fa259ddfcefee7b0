package argschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/toolbus/toolbus/canonical"
)

// The document and the schema around it stand under opaque absolute URLs: a
// relative one would be a file of the working directory.
const (
	baseURL    = "mem:///tool.json"
	closingURL = "mem:///tool.json/closed"
)

// Compile checks a declared input schema and makes it ready to validate
// arguments. The error is a [*SchemaError]. The schema's bytes are read only.
func Compile(schema json.RawMessage, o Options) (*Schema, error) {
	s, refused := compileInput(schema, o)
	if refused != nil {
		return nil, refused
	}
	return s, nil
}

// rescue refuses a schema that breaks the library, like anything else that the
// library does not accept: the document is a stranger's and must not end the
// process.
func rescue(refused **SchemaError) {
	if recover() != nil {
		*refused = &SchemaError{Reason: ReasonInvalid}
	}
}

func compileInput(schema json.RawMessage, o Options) (s *Schema, refused *SchemaError) {
	defer rescue(&refused)
	root, err := decode(schema, o)
	if err != nil {
		return nil, err
	}
	p := newPatterns(o.MaxProgram)
	dialect, err := inspect(root, o, p)
	if err != nil {
		return nil, err
	}
	if root["type"] != "object" {
		return nil, &SchemaError{ReasonNotObject, "/type"}
	}
	mode := closing(root, dialect)
	declared, entry, err := build(root, dialect, p, mode == closedByKeyword)
	if err != nil {
		return nil, err
	}
	multiplies, err := examine(entry, o.MaxCost)
	if err != nil {
		return nil, err
	}
	presets, err := checkDefaults(declared)
	if err != nil {
		return nil, err
	}
	return &Schema{
		dialect: dialect, mode: mode, declared: declared, presets: presets,
		guard: newGuard(entry, multiplies, o.Watchdog),
	}, nil
}

// decode parses a schema strictly. The same normalization as for arguments
// makes names, constants and numbers of both comparable, and keeps numbers whose
// exact value would not fit in memory away from the library.
func decode(schema json.RawMessage, o Options) (map[string]any, *SchemaError) {
	if over(len(schema), o.MaxBytes) {
		var compact bytes.Buffer
		if err := json.Compact(&compact, schema); err != nil {
			return nil, &SchemaError{Reason: ReasonInvalid}
		}
		if over(compact.Len(), o.MaxBytes) {
			return nil, &SchemaError{Reason: ReasonTooLarge}
		}
	}
	v, err := canonical.Parse(schema)
	var refused *canonical.Error
	if errors.As(err, &refused) {
		if refused.Rule == canonical.RuleDepth {
			return nil, &SchemaError{Reason: ReasonTooDeep}
		}
		return nil, &SchemaError{ReasonInvalid, refused.Path}
	}
	root, ok := v.(map[string]any)
	if !ok {
		return nil, &SchemaError{Reason: ReasonNotObject}
	}
	return root, nil
}

// closure says how undeclared root properties are kept out.
type closure int

const (
	// closedByDeclaration: the schema itself says what it allows.
	closedByDeclaration closure = iota
	// closedByName: compare with properties and patternProperties.
	closedByName
	// closedByKeyword: validate under unevaluatedProperties: false.
	closedByKeyword
	// leftOpen: the dialect has no means.
	leftOpen
)

func closing(root map[string]any, dialect Dialect) closure {
	for _, keyword := range []string{"additionalProperties", "unevaluatedProperties"} {
		if _, declared := root[keyword]; declared {
			return closedByDeclaration
		}
	}
	for _, applicator := range []string{
		"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf",
		"not", "if", "then", "else", "dependentSchemas", "dependencies",
	} {
		if _, present := root[applicator]; !present {
			continue
		}
		if dialect.hasUnevaluated() {
			return closedByKeyword
		}
		return leftOpen
	}
	return closedByName
}

// refusingLoader loads nothing. The library asks it for whatever is neither the
// document nor an embedded meta-schema.
type refusingLoader struct{}

var errRemote = errors.New("references out of the document are refused")

// Load refuses.
func (refusingLoader) Load(string) (any, error) { return nil, errRemote }

// build compiles the document. The entry is where validation begins: the
// document itself or, to close it, a schema around it; the document is not
// touched, since it may refer to its own root from places that must stay open.
func build(root map[string]any, dialect Dialect, p *patterns, closed bool) (declared, entry *jsonschema.Schema, refused *SchemaError) {
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(refusingLoader{})
	compiler.UseRegexpEngine(p.engine)
	compiler.DefaultDraft(dialect.draft())
	if err := compiler.AddResource(baseURL, root); err != nil {
		return nil, nil, fromLibrary(err)
	}
	declared, err := compiler.Compile(baseURL)
	if err != nil {
		return nil, nil, fromLibrary(err)
	}
	if !closed {
		return declared, declared, nil
	}
	around := map[string]any{"$schema": string(dialect), "$ref": baseURL, "unevaluatedProperties": false}
	if err := compiler.AddResource(closingURL, around); err != nil {
		return nil, nil, fromLibrary(err)
	}
	if entry, err = compiler.Compile(closingURL); err != nil {
		return nil, nil, fromLibrary(err)
	}
	return declared, entry, nil
}

// fromLibrary classifies an error of the schema library. Its text quotes the
// schema and goes no further.
func fromLibrary(err error) *SchemaError {
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) || errors.Is(err, errRemote) {
		return &SchemaError{Reason: ReasonRemoteRef}
	}
	if errors.Is(err, errPatternCost) {
		return &SchemaError{Reason: ReasonTooCostly}
	}
	var expression *jsonschema.InvalidRegexError
	if errors.As(err, &expression) {
		return &SchemaError{Reason: ReasonPattern}
	}
	var invalid *jsonschema.SchemaValidationError
	var violation *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &violation) {
		leaf := mostSpecific(violation)
		path := pointer(leaf.tokens)
		if format, ok := leaf.kind.(*kind.Format); ok && strings.Contains(format.Want, "regex") {
			return &SchemaError{ReasonPattern, path}
		}
		return &SchemaError{ReasonInvalid, path}
	}
	return &SchemaError{Reason: ReasonInvalid}
}
