package argschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ property, value, path, rule string }{
		{`{"type":["string","null"]}`, `1`, "", "type: must be null or string"},
		{`{"enum":["canary"]}`, `"canary2"`, "", "enum: must be one of the declared values"},
		{`{"const":"canary"}`, `"canary2"`, "", "const: must be the declared value"},
		{`{"pattern":"^canary$"}`, `"canary2"`, "", "pattern: must match the declared pattern"},
		{`{"minLength":3}`, `"ab"`, "", "minLength: must have at least 3 characters"},
		{`{"maxLength":1}`, `"ab"`, "", "maxLength: must have at most 1 characters"},
		{`{"minimum":1.5}`, `1`, "", "minimum: must be at least 1.5"},
		{`{"maximum":10}`, `11`, "", "maximum: must be at most 10"},
		{`{"exclusiveMinimum":0}`, `0`, "", "exclusiveMinimum: must be greater than 0"},
		{`{"exclusiveMaximum":1e21}`, `1e21`, "", "exclusiveMaximum: must be less than 1000000000000000000000"},
		{`{"multipleOf":0.1}`, `0.25`, "", "multipleOf: must be a multiple of 0.1"},
		{`{"minItems":1}`, `[]`, "", "minItems: must have at least 1 items"},
		{`{"maxItems":1}`, `[1,2]`, "", "maxItems: must have at most 1 items"},
		{`{"uniqueItems":true}`, `[1,2,1.0]`, "", "uniqueItems: must not have equal items"},
		{`{"contains":{"const":1}}`, `[2]`, "", "contains: must have a matching item"},
		{`{"contains":{"const":1},"minContains":2}`, `[1]`, "", "minContains: must have at least 2 matching items"},
		{`{"contains":{"const":1},"maxContains":1}`, `[1,1]`, "", "maxContains: must have at most 1 matching items"},
		{`{"prefixItems":[true],"items":false}`, `[1,2]`, "/1", "false: must not be present"},
		{`{"minProperties":1}`, `{}`, "", "minProperties: must have at least 1 properties"},
		{`{"maxProperties":1}`, `{"a":1,"b":2}`, "", "maxProperties: must have at most 1 properties"},
		{`{"propertyNames":{"maxLength":1}}`, `{"canary":1}`, "/canary", "propertyNames: must be an allowed name"},
		{`{"required":["b","a"]}`, `{}`, "", `required: property "a" is missing`},
		{`{"required":["two\nlines \" and a name of more than sixty-four bytes, which is cut somewhere"]}`, `{}`, "", `required: property "two�lines \" and a name of more than sixty-four bytes, which is c" is missing`},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, "", `dependentRequired: property "b" is missing`},
		{`{"not":{"type":"string"}}`, `"canary"`, "", "not: must not match the excluded schema"},
		{`{"oneOf":[{"type":"number"},{"type":"integer"}]}`, `1`, "", "oneOf: must match one alternative only"},
		{`{"anyOf":[{"type":"number"},{"type":"boolean"}]}`, `"canary"`, "", "anyOf: must match an alternative"},
		{`{"anyOf":[{"type":"null"},{"type":"object","properties":{"a":{"minimum":3}}}]}`, `{"a":1}`, "/a", "minimum: must be at least 3"},
		{`{"anyOf":[{"properties":{"k":{"const":1},"v":{"minimum":3}}},{"properties":{"k":{"const":2}}}]}`, `{"k":1,"v":1}`, "/v", "minimum: must be at least 3"},
		{`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"a":1}`, "", `required: property "b" is missing`},
		{`{"dependentSchemas":{"a":{"properties":{"b":false}}}}`, `{"a":1,"b":"canary"}`, "/b", "false: must not be present"},
		{`{"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, `{"b":1,"a":1}`, "/a", "type: must be string"},
		{`{"items":{"type":"string"}}`, `["","","",1,"","","","","","",2]`, "/3", "type: must be string"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			s, err := Compile(json.RawMessage(`{"type":"object","properties":{"p":`+c.property+`}}`), Remote())
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.Arguments(json.RawMessage(`{"p":` + c.value + `}`))
			var refused *ArgumentError
			if !errors.As(err, &refused) || refused.Path != "/p"+c.path || refused.Rule != c.rule {
				t.Fatalf("error = %v, want /p%s: %s", err, c.path, c.rule)
			}
			if strings.Contains(refused.Rule, "canary") {
				t.Errorf("the rule shows a value: %s", refused.Rule)
			}
		})
	}
}

func TestDraft7Rules(t *testing.T) {
	t.Parallel()
	validation{"", `{` + draft7 + `"type":"object","properties":{"f":{"format":"email"},"l":{"items":[true],"additionalItems":false},"d":{"dependencies":{"a":["b"]}}}}`, []document{
		{raw: `{"f":"canary"}`, path: "/f", rule: "format: must be email"},
		{raw: `{"l":[1,2]}`, path: "/l", rule: "additionalItems: must have fewer items"},
		{raw: `{"d":{"a":1}}`, path: "/d", rule: `dependencies: property "b" is missing`},
	}}.run(t)
}

// TestPointerTokens checks that keys of the arguments cannot carry a message.
func TestPointerTokens(t *testing.T) {
	t.Parallel()
	key := "line\nbreak~/" + strings.Repeat("x", 100)
	raw, err := json.Marshal(map[string]any{key: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := "/line�break~0~1" + strings.Repeat("x", 52)
	validation{"", `{"type":"object"}`, []document{{raw: string(raw), path: want, rule: ruleUndeclared}}}.run(t)
	validation{"", `{"type":"object","additionalProperties":{"type":"string"}}`, []document{{raw: string(raw), path: want, rule: "type: must be string"}}}.run(t)
}

// TestStableChoice checks that the violation reported does not follow the order
// of Go's maps.
func TestStableChoice(t *testing.T) {
	t.Parallel()
	s, err := Compile(json.RawMessage(`{"type":"object","properties":{`+members(20, `{"type":"string"}`)+`},"required":["z"],"anyOf":[true]}`), Remote())
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		_, err := s.Arguments(json.RawMessage(`{` + members(20, `1`) + `,"q":1}`))
		if want := `required: property "z" is missing`; fmt.Sprint(err) != want {
			t.Fatalf("error = %v, want %s", err, want)
		}
	}
}
