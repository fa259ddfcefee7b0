package argschema

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// validation is one schema with documents; a document is refused where rule is
// set, else form is what becomes of it, "" for itself.
type validation struct {
	name, schema string
	documents    []document
}

type document struct{ raw, form, path, rule string }

const (
	draft7 = `"$schema":"http://json-schema.org/draft-07/schema#",`
	draft9 = `"$schema":"https://json-schema.org/draft/2019-09/schema",`
)

func (v validation) run(t *testing.T) {
	t.Helper()
	s, err := Compile(json.RawMessage(v.schema), Remote())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range v.documents {
		form, err := s.Arguments(json.RawMessage(d.raw))
		if d.rule == "" {
			want := d.form
			if want == "" {
				want = d.raw
			}
			if err != nil || string(form) != want {
				t.Errorf("%s: form %s, %v, want %s", d.raw, form, err, want)
				continue
			}
			if again, err := s.Arguments(form); err != nil || string(again) != want {
				t.Errorf("%s: again %s, %v, want %s", d.raw, again, err, want)
			}
			continue
		}
		var refused *ArgumentError
		if !errors.As(err, &refused) || refused.Path != d.path || refused.Rule != d.rule {
			t.Errorf("%s: form %s, error %v, want %q %q", d.raw, form, err, d.path, d.rule)
		}
	}
}

func TestUndeclaredProperties(t *testing.T) {
	t.Parallel()
	for _, v := range []validation{
		{"plain", `{"type":"object","properties":{"a":{"type":"string"}}}`, []document{
			{raw: `{"a":"x"}`},
			{raw: `{}`},
			{raw: `{"b":1,"c":2}`, path: "/b", rule: ruleUndeclared},
		}},
		{"pattern", `{"type":"object","patternProperties":{"^x-":true}}`, []document{
			{raw: `{"x-1":1}`}, {raw: `{"y":1}`, path: "/y", rule: ruleUndeclared},
		}},
		{"nothing declared", `{"type":"object"}`, []document{
			{raw: `{}`}, {raw: `{"a":1}`, path: "/a", rule: ruleUndeclared},
		}},
		{"declared open", `{"type":"object","properties":{"a":true},"additionalProperties":true}`, []document{{raw: `{"b":1}`}}},
		{"declared map", `{"type":"object","additionalProperties":{"type":"string"}}`, []document{
			{raw: `{"b":"x"}`}, {raw: `{"b":1}`, path: "/b", rule: "type: must be string"},
		}},
		{"declared closed", `{"type":"object","properties":{"a":true},"additionalProperties":false}`, []document{
			{raw: `{"c":1,"b":1}`, path: "/b", rule: ruleUndeclared},
		}},
		{"unevaluated declared open", `{"type":"object","properties":{"a":true},"unevaluatedProperties":true}`, []document{{raw: `{"b":1}`}}},
		{"nested maps stay free", `{"type":"object","properties":{"m":{"type":"object"},"o":{"type":"object","properties":{"a":true}}}}`, []document{
			{raw: `{"m":{"any":{"thing":1}},"o":{"a":1,"b":2}}`},
		}},
		{"allOf declares", `{"type":"object","properties":{"a":true},"allOf":[{"properties":{"b":{"type":"integer"}}}]}`, []document{
			{raw: `{"a":1,"b":2}`},
			{raw: `{"b":2,"c":3}`, path: "/c", rule: ruleUnevaluated},
			{raw: `{"b":"x","c":3}`, path: "/b", rule: "type: must be integer"},
		}},
		{"a violation before what it leaves undeclared", `{"type":"object","allOf":[{"properties":{"a":true,"b":{"type":"integer"}}}]}`, []document{
			{raw: `{"a":1,"b":"x"}`, path: "/b", rule: "type: must be integer"},
		}},
		{"$ref declares", `{"type":"object","$ref":"#/$defs/base","properties":{"b":true},"$defs":{"base":{"properties":{"a":true}}}}`, []document{
			{raw: `{"a":1,"b":2}`}, {raw: `{"c":3}`, path: "/c", rule: ruleUnevaluated},
		}},
		{"oneOf branches", `{"type":"object","oneOf":[{"properties":{"k":{"const":"a"},"x":true},"required":["k"]},{"properties":{"k":{"const":"b"},"y":true},"required":["k"]}]}`, []document{
			{raw: `{"k":"a","x":1}`},
			{raw: `{"k":"b","y":1}`},
			{raw: `{"k":"a","y":1}`, path: "/y", rule: ruleUnevaluated},
			{raw: `{"k":"c"}`, rule: "oneOf: must match one alternative"},
		}},
		{"anyOf of required", `{"type":"object","properties":{"a":true,"b":true},"anyOf":[{"required":["a"]},{"required":["b"]}]}`, []document{
			{raw: `{"a":1}`},
			{raw: `{"a":1,"z":1}`, path: "/z", rule: ruleUnevaluated},
			{raw: `{}`, rule: "anyOf: must match an alternative"},
		}},
		{"2019-09 allOf", `{` + draft9 + `"type":"object","allOf":[{"properties":{"a":true}}]}`, []document{
			{raw: `{"a":1}`}, {raw: `{"b":1}`, path: "/b", rule: ruleUnevaluated},
		}},
		{"draft-07 plain", `{` + draft7 + `"type":"object","properties":{"a":true}}`, []document{
			{raw: `{"a":1}`}, {raw: `{"b":1}`, path: "/b", rule: ruleUndeclared},
		}},
		{"draft-07 $ref siblings do not count", `{` + draft7 + `"type":"object","$ref":"#/definitions/o","required":["zzz"],"definitions":{"o":{"properties":{"a":{"type":"integer"}}}}}`, []document{
			{raw: `{"a":1,"b":2}`},
			{raw: `{"a":"x"}`, path: "/a", rule: "type: must be integer"},
			{raw: `[]`, rule: "type: must be object"},
		}},
		{"the root from within stays open", `{"type":"object","properties":{"a":true,"child":{"allOf":[{"$ref":"#"},{"properties":{"extra":true}}]}},"allOf":[true]}`, []document{
			{raw: `{"a":1,"child":{"a":1,"child":{"more":1},"extra":1}}`},
			{raw: `{"extra":1}`, path: "/extra", rule: ruleUnevaluated},
		}},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v.run(t)
		})
	}
}

// TestLocalReferences is the schema that other clients drop or mangle: local
// references of every kind, with recursion.
func TestLocalReferences(t *testing.T) {
	t.Parallel()
	for _, v := range []validation{
		{
			"2020-12", `{"type":"object","properties":{"parent":{"$ref":"#/$defs/page"},"icon":{"$ref":"#icon"},"tree":{"$dynamicRef":"#node"}},"required":["parent"],
			"$defs":{"page":{"type":"object","properties":{"id":{"type":"string"},"sub":{"$ref":"#/$defs/page"}},"required":["id"],"additionalProperties":false},
			"icon":{"$anchor":"icon","oneOf":[{"type":"string"},{"type":"object","properties":{"emoji":{"const":"🎉"}}}]},
			"n":{"$dynamicAnchor":"node","type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$dynamicRef":"#node"}}},"unevaluatedProperties":false}}}`,
			[]document{
				{raw: `{"icon":{"emoji":"🎉"},"parent":{"id":"a","sub":{"id":"b","sub":{"id":"c"}}}}`},
				{raw: `{"parent":{"id":"a"},"tree":{"kids":[{"kids":[{"v":3}]}],"v":1}}`},
				{raw: `{"parent":{"id":"a","sub":{}}}`, path: "/parent/sub", rule: `required: property "id" is missing`},
				{raw: `{"parent":{"id":"a","sub":{"id":"b","x":1}}}`, path: "/parent/sub/x", rule: ruleUndeclared},
				{raw: `{"icon":7,"parent":{"id":"a"}}`, path: "/icon", rule: "oneOf: must match one alternative"},
				{raw: `{"parent":{"id":"a"},"tree":{"kids":[{"kids":[{"v":"x"}]}]}}`, path: "/tree/kids/0/kids/0/v", rule: "type: must be integer"},
				{raw: `{"parent":{"id":"a"},"tree":{"kids":[{"w":1}]}}`, path: "/tree/kids/0/w", rule: ruleUnevaluated},
			},
		},
		{
			"2019-09", `{` + draft9 + `"type":"object","$recursiveAnchor":true,"properties":{"v":{"type":"integer"},"next":{"$recursiveRef":"#"}}}`,
			[]document{
				{raw: `{"next":{"next":{"v":1}}}`},
				{raw: `{"next":{"next":{"v":"x"}}}`, path: "/next/next/v", rule: "type: must be integer"},
			},
		},
		{
			"draft-07", `{` + draft7 + `"type":"object","properties":{"n":{"$ref":"#node"}},"definitions":{"n":{"$id":"#node","properties":{"next":{"$ref":"#/definitions/n"},"v":{"type":"integer"}}}}}`,
			[]document{{raw: `{"n":{"next":{"v":1}}}`}, {raw: `{"n":{"next":{"v":"x"}}}`, path: "/n/next/v", rule: "type: must be integer"}},
		},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v.run(t)
		})
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, v := range []validation{
		{"filled", `{"type":"object","properties":{"a":{"default":1.0},"b":{"type":["string","null"],"default":null},"c":{}}}`, []document{
			{raw: `{}`, form: `{"a":1,"b":null}`}, {raw: `{"a":2}`, form: `{"a":2,"b":null}`}, {raw: `{"b":"x"}`, form: `{"a":1,"b":"x"}`},
		}},
		{"in present objects only", `{"type":"object","properties":{"o":{"type":"object","properties":{"n":{"default":7}}}}}`, []document{
			{raw: `{}`}, {raw: `{"o":{}}`, form: `{"o":{"n":7}}`},
		}},
		{"in a default", `{"type":"object","properties":{"o":{"default":{"x":1},"properties":{"n":{"default":7}}}}}`, []document{
			{raw: `{}`, form: `{"o":{"n":7,"x":1}}`},
		}},
		{"through $ref", `{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"type":"object","default":{},"properties":{"n":{"default":7}}}}}`, []document{
			{raw: `{}`, form: `{"a":{"n":7}}`}, {raw: `{"a":{}}`, form: `{"a":{"n":7}}`},
		}},
		{"through allOf and items", `{"type":"object","allOf":[{"properties":{"l":{"type":"array","items":{"properties":{"n":{"default":7}}}}}}]}`, []document{
			{raw: `{"l":[{},{"n":1},3]}`, form: `{"l":[{"n":7},{"n":1},3]}`},
		}},
		{"through prefixItems", `{"type":"object","properties":{"l":{"prefixItems":[{"properties":{"n":{"default":7}}}],"items":{"properties":{"m":{"default":8}}}}}}`, []document{
			{raw: `{"l":[{},{}]}`, form: `{"l":[{"n":7},{"m":8}]}`},
		}},
		{"through draft-07 items", `{` + draft7 + `"type":"object","properties":{"l":{"items":[{"properties":{"n":{"default":7}}}],"additionalItems":{"properties":{"m":{"default":8}}}}}}`, []document{
			{raw: `{"l":[{},{}]}`, form: `{"l":[{"n":7},{"m":8}]}`},
		}},
		{"not through branches", `{"type":"object","properties":{"k":true},"anyOf":[{"properties":{"a":{"default":1}}}],"oneOf":[{"properties":{"b":{"default":1}}}],"if":{"properties":{"c":{"default":1}}},"then":{"properties":{"d":{"default":1}}}}`, []document{
			{raw: `{"k":1}`},
		}},
		{"before required", `{"type":"object","properties":{"a":{"default":1}},"required":["a"]}`, []document{{raw: `{}`, form: `{"a":1}`}}},
		{"recursive", `{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"properties":{"v":{"default":0},"next":{"$ref":"#/$defs/n"}}}}}`, []document{
			{raw: `{"n":{"next":{"next":{}}}}`, form: `{"n":{"next":{"next":{"v":0},"v":0},"v":0}}`},
		}},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v.run(t)
		})
	}
}

// TestDefaultsAreCopies checks that a document cannot reach into the schema.
func TestDefaultsAreCopies(t *testing.T) {
	t.Parallel()
	validation{"", `{"type":"object","properties":{"o":{"default":{"l":[{}]},"properties":{"l":{"items":{"properties":{"n":{"default":1}}}}}}}}`, []document{
		{raw: `{}`, form: `{"o":{"l":[{"n":1}]}}`},
		{raw: `{"o":{"l":[]}}`},
		{raw: `{}`, form: `{"o":{"l":[{"n":1}]}}`},
	}}.run(t)
	s, err := Compile(json.RawMessage(`{"type":"object","properties":{"o":{"default":{"l":[{}]}}}}`), Remote())
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	fill(s.declared, object)
	object["o"].(map[string]any)["l"].([]any)[0].(map[string]any)["x"] = true
	if form, err := s.Arguments(json.RawMessage(`{}`)); err != nil || string(form) != `{"o":{"l":[{}]}}` {
		t.Errorf("form %s, %v", form, err)
	}
}

func TestExactNumbers(t *testing.T) {
	t.Parallel()
	validation{"", `{"type":"object","properties":{"c":{"const":9007199254740993},"i":{"type":"integer"},"m":{"maximum":100000000000000000000000000000000000001}}}`, []document{
		{raw: `{"c":9007199254740993}`},
		{raw: `{"c":9007199254740993.0}`, form: `{"c":9007199254740993}`},
		{raw: `{"c":9007199254740992}`, path: "/c", rule: "const: must be the declared value"},
		{raw: `{"i":1e3}`, form: `{"i":1000}`},
		{raw: `{"i":1.5}`, path: "/i", rule: "type: must be integer"},
		{raw: `{"m":100000000000000000000000000000000000001}`},
		{raw: `{"m":100000000000000000000000000000000000002}`, path: "/m", rule: "maximum: must be at most the declared number"},
		{raw: `{"m":-0.0}`, path: "/m", rule: "json: must not be negative zero"},
	}}.run(t)
}

// TestNormalizedNames checks that a schema and a document meet in NFC.
func TestNormalizedNames(t *testing.T) {
	t.Parallel()
	validation{"", `{"type":"object","properties":{"e\u0301":{"enum":["A\u030a"]}},"required":["\u00e9"]}`, []document{
		{raw: `{"\u00e9":"\u212b"}`, form: "{\"\u00e9\":\"\u00c5\"}"},
		{raw: `{"e\u0301":"A\u030a"}`, form: "{\"\u00e9\":\"\u00c5\"}"},
		{raw: `{"e\u0301":"\u00c5","\u00e9":"\u00c5"}`, path: "/\u00e9", rule: "json: must not hold the same key twice"},
	}}.run(t)
}

func TestArgumentCaps(t *testing.T) {
	t.Parallel()
	long := `{"a":"` + strings.Repeat("x", MaximumBytes-8) + `"}`
	validation{"", `{"type":"object","properties":{"a":true}}`, []document{
		{raw: long},
		{raw: long + " ", rule: "json: must have at most 1048576 bytes"},
		{raw: `{"a":[` + strings.TrimSuffix(strings.Repeat("1e399,", 3000), ",") + `]}`, rule: "json: must have at most 1048576 bytes"},
		{raw: `{"a":` + nested("[", "", "]", 63) + `}`},
		{raw: `{"a":` + nested("[", "", "]", 64) + `}`, path: "/a" + strings.Repeat("/0", 63), rule: "json: must not nest deeper than 64"},
		{raw: `{"a":1`, rule: "json: must be one JSON value"},
		{raw: ``, rule: "json: must be one JSON value"},
		{raw: `null`, rule: "type: must be object"},
	}}.run(t)
}

func TestRecursionIsMetered(t *testing.T) {
	t.Parallel()
	v := validation{"", `{"type":"object","properties":{"t":{"$ref":"#/$defs/t"}},"$defs":{"t":{"properties":{"k":{"anyOf":[{"$ref":"#/$defs/t"},{"$ref":"#/$defs/t"},{"$ref":"#/$defs/t"}]},"leaf":{"const":1}}}}}`, []document{
		{raw: `{"t":` + nested(`{"k":`, `{}`, `}`, 5) + `}`},
		{raw: `{"t":` + nested(`{"k":`, `{}`, `}`, 50) + `}`, rule: "schema: must not need so much work to check"},
	}}
	v.run(t)
	validation{"defaults", strings.Replace(v.schema, `"leaf":{"const":1}`, `"leaf":{"default":1}`, 1), v.documents[1:]}.run(t)
	validation{"shared defaults", strings.NewReplacer(`"leaf":{"const":1}`, `"leaf":{"default":1}`, "anyOf", "allOf").Replace(v.schema), []document{
		{raw: v.documents[1].raw, rule: "default: must not need so many defaults"},
	}}.run(t)
}
