package argschema

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestOutput(t *testing.T) {
	t.Parallel()
	o, err := CompileOutput(json.RawMessage(`{"type":"object","properties":{"n":{"type":"number"},"s":{"type":"string","default":"x"}},"required":["n"],"allOf":[true]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ structured, path, rule string }{
		{`{"n":1}`, "", ""},
		{`{"n":1,"more":{"than":"declared"}}`, "", ""},
		{`{"n":-0}`, "", ""},
		{`{"n":-0.0e3,"l":[-0,{"x":-0.0}]}`, "", ""},
		{`{"n":"1"}`, "/n", "type: must be number"},
		{`{"n":-0,"s":1}`, "/s", "type: must be string"},
		{`{}`, "", `required: property "n" is missing`},
		{`[]`, "", "type: must be object"},
		{`{"n":1} x`, "", "json: must end after the value"},
		{`{"n":-0} x`, "", "json: must be one JSON value"},
		{`{"n":1e500}`, "/n", "json: must have at most 400 digits"},
		{`{"n":-0,"m":1e500}`, "/m", "json: must have at most 400 digits"},
		{``, "", "json: must be one JSON value"},
	} {
		err := o.Validate(json.RawMessage(c.structured))
		if c.rule == "" {
			if err != nil {
				t.Errorf("%s: %v", c.structured, err)
			}
			continue
		}
		var refused *ArgumentError
		if !errors.As(err, &refused) || refused.Path != c.path || refused.Rule != c.rule {
			t.Errorf("%s: error = %v, want %q %q", c.structured, err, c.path, c.rule)
		}
	}
}

func TestCompileOutputRefuses(t *testing.T) {
	t.Parallel()
	for schema, reason := range map[string]Reason{
		`{"$ref":"file:///etc/hosts"}`:                          ReasonRemoteRef,
		`{"$schema":"http://json-schema.org/draft-07/schema#"}`: ReasonDialect,
		`{"anyOf":[{"$ref":"#"}]}`:                              ReasonTooCostly,
		`{"type":"what"}`:                                       ReasonInvalid,
		`7`:                                                     ReasonNotObject,
		`{"$defs":{"a":{"$id":"https://example.com/"}},"type":"object"}`:         ReasonEmbedded,
		`{"type":"object","properties":{"a":{"pattern":"(?<!x)y"}}}`:             ReasonPattern,
		`{"x":` + nested("[", "", "]", 64) + `}`:                                 ReasonTooDeep,
		`{"$defs":{` + doubled(16) + `},"items":{"$ref":"#/$defs/l0"}}`:          ReasonTooCostly,
		`{"x":{"$ref":"http://127.0.0.1:1/"},"properties":{"a":{"$ref":"#/x"}}}`: ReasonRemoteRef,
	} {
		_, err := CompileOutput(json.RawMessage(schema))
		var refused *SchemaError
		if !errors.As(err, &refused) || refused.Reason != reason {
			t.Errorf("%s: error = %v, want reason %q", schema, err, reason)
		}
	}
}
