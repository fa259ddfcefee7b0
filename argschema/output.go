package argschema

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolbus/toolbus/canonical"
)

// Output is a compiled output schema. It is immutable and safe for concurrent
// use. Nothing is closed and no default is filled: a tool may say more than it
// declared.
type Output struct{ schema *jsonschema.Schema }

// CompileOutput checks a declared output schema, under the options of [Builtin]:
// only tools of the program have one. The root may be of any type. The error is
// a [*SchemaError].
func CompileOutput(schema json.RawMessage) (*Output, error) {
	out, refused := compileOutput(schema, Builtin())
	if refused != nil {
		return nil, refused
	}
	return out, nil
}

func compileOutput(schema json.RawMessage, o Options) (out *Output, refused *SchemaError) {
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
	declared, _, err := build(root, dialect, p, false)
	if err != nil {
		return nil, err
	}
	if _, err := examine(declared, o.MaxCost); err != nil {
		return nil, err
	}
	return &Output{declared}, nil
}

// Validate checks structured output. It holds the number zero to be the same
// under either sign, since encoders write a negative one without being asked;
// apart from that the document obeys the rules of [canonical.Parse]. The error
// is an [*ArgumentError]: path and rule, no value.
func (o *Output) Validate(structured json.RawMessage) error {
	v, err := canonical.Parse(structured)
	var refused *canonical.Error
	if errors.As(err, &refused) && refused.Rule == canonical.RuleNegativeZero {
		v, err = parseSigned(structured)
	}
	if err != nil {
		return fromCanonical(err)
	}
	return check(o.schema.Validate, v)
}

// parseSigned is [canonical.Parse] of a document whose negative zeros lose
// their signs.
func parseSigned(raw []byte) (any, error) {
	if !json.Valid(raw) {
		return nil, &canonical.Error{Rule: canonical.RuleSyntax}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, &canonical.Error{Rule: canonical.RuleSyntax}
	}
	unsigned, err := json.Marshal(unsign(v))
	if err != nil {
		return nil, &canonical.Error{Rule: canonical.RuleSyntax}
	}
	return canonical.Parse(unsigned)
}

func unsign(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = unsign(member)
		}
	case []any:
		for i, item := range v {
			v[i] = unsign(item)
		}
	case json.Number:
		_, err := canonical.Form([]byte(v))
		var refused *canonical.Error
		if errors.As(err, &refused) && refused.Rule == canonical.RuleNegativeZero {
			return json.Number("0")
		}
	}
	return v
}
