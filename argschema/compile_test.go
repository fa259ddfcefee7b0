package argschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const wide = `"type":"object","additionalProperties":true`

func nested(open, inner, closing string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
}

// doubled gives $defs in which each level refers twice to the next: 2^levels
// applications at one location from a few hundred bytes.
func doubled(levels int) string {
	var b strings.Builder
	for i := range levels {
		fmt.Fprintf(&b, `"l%d":{"allOf":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"l%d":true`, levels)
	return b.String()
}

func members(n int, value string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"p%d":%s`, i, value)
	}
	return strings.Join(list, ",")
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"type":"string","title":"canary"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, schema string
		reason       Reason
		path         string
	}{
		{"no JSON", `{"type":`, ReasonInvalid, "/type"},
		{"duplicate key", `{"type":"object","type":"object"}`, ReasonInvalid, "/type"},
		{"boolean", `true`, ReasonNotObject, ""},
		{"string", `"str"`, ReasonNotObject, ""},
		{"null", `null`, ReasonNotObject, ""},
		{"no type", `{}`, ReasonNotObject, "/type"},
		{"array type", `{"type":"array"}`, ReasonNotObject, "/type"},
		{"type list", `{"type":["object","null"]}`, ReasonNotObject, "/type"},
		{"wrong keyword value", `{"type":"object","properties":{"a":{"type":"strnig"}}}`, ReasonInvalid, "/properties/a/type"},
		{"zero multipleOf", `{"type":"object","properties":{"a":{"multipleOf":1e-400}}}`, ReasonInvalid, "/properties/a/multipleOf"},
		{"zero multipleOf behind an unknown keyword", `{"type":"object","x":{"multipleOf":0},"$ref":"#/x"}`, ReasonInvalid, "/multipleOf"},
		{"enormous number", `{"type":"object","maxProperties":1e999999999}`, ReasonInvalid, "/maxProperties"},
		{"bound beyond 64 bits", `{"type":"object","properties":{"a":{"maxLength":18446744073709551616}}}`, ReasonInvalid, "/properties/a/maxLength"},
		{"dangling ref", `{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`, ReasonInvalid, ""},
		{"dangling anchor", `{"type":"object","properties":{"a":{"$ref":"#none"}}}`, ReasonInvalid, ""},

		{"file ref", `{"type":"object","properties":{"a":{"$ref":"file://` + secret + `"}}}`, ReasonRemoteRef, "/properties/a/$ref"},
		{"file ref by $id base", `{"$id":"file://` + filepath.Dir(secret) + `/","type":"object","properties":{"a":{"$ref":"secret.json"}}}`, ReasonRemoteRef, "/properties/a/$ref"},
		{"file ref behind an unknown keyword", `{"type":"object","x":{"$ref":"file://` + secret + `"},"$ref":"#/x"}`, ReasonRemoteRef, ""},
		{"file $schema behind an unknown keyword", `{"type":"object","x":{"$schema":"file://` + secret + `"},"$ref":"#/x"}`, ReasonRemoteRef, ""},
		{"http ref", `{"type":"object","allOf":[{"$ref":"http://127.0.0.1:1/x.json"}]}`, ReasonRemoteRef, "/allOf/0/$ref"},
		{"https ref in $defs", `{"type":"object","$defs":{"a":{"$ref":"https://example.com/s#/x"}}}`, ReasonRemoteRef, "/$defs/a/$ref"},
		{"relative ref", `{"type":"object","not":{"$ref":"other.json"}}`, ReasonRemoteRef, "/not/$ref"},
		{"meta-schema ref", `{"type":"object","properties":{"s":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`, ReasonRemoteRef, "/properties/s/$ref"},
		{"meta-schema ref behind an unknown keyword", `{"type":"object","x":{"$ref":"https://json-schema.org/draft/2020-12/schema"},"$ref":"#/x"}`, ReasonRemoteRef, ""},
		{"remote $dynamicRef", `{"type":"object","items":{"$dynamicRef":"https://example.com/#a"}}`, ReasonRemoteRef, "/items/$dynamicRef"},

		{"file $schema", `{"$schema":"file://` + secret + `","type":"object"}`, ReasonDialect, "/$schema"},
		{"draft-04", `{"$schema":"http://json-schema.org/draft-04/schema#","type":"object"}`, ReasonDialect, "/$schema"},
		{"$schema no string", `{"$schema":7,"type":"object"}`, ReasonDialect, "/$schema"},
		{"nested $schema", `{"type":"object","$defs":{"a":{"$schema":"http://json-schema.org/draft-04/schema#"}}}`, ReasonEmbedded, "/$defs/a/$schema"},
		{"nested $id", `{"type":"object","properties":{"a":{"$id":"file:///etc/"}}}`, ReasonEmbedded, "/properties/a/$id"},
		{"vocabulary", `{"type":"object","$vocabulary":{}}`, ReasonEmbedded, "/$vocabulary"},

		{"lookahead", `{"type":"object","properties":{"a":{"pattern":"^(?=x)"}}}`, ReasonPattern, "/properties/a/pattern"},
		{"script class", `{"type":"object","patternProperties":{"\\p{Script=Greek}":true}}`, ReasonPattern, "/patternProperties"},
		{"lookahead behind an unknown keyword", `{"type":"object","x":{"pattern":"(?=x)"},"$ref":"#/x"}`, ReasonPattern, "/pattern"},

		{"pattern that unfolds", `{"type":"object","properties":{"a":{"pattern":"` + strings.Repeat("(x{1,30}){1,30}", 60) + `"}}}`, ReasonTooCostly, "/properties/a/pattern"},
		{"pattern that unfolds behind an unknown keyword", `{"type":"object","x":{"pattern":"` + strings.Repeat("(x{1,30}){1,30}", 60) + `"},"$ref":"#/x"}`, ReasonPattern, "/pattern"},

		{"bytes", `{"type":"object","description":"` + strings.Repeat("x", 32768) + `"}`, ReasonTooLarge, ""},
		{"values", `{` + wide + `,"x":[` + strings.TrimSuffix(strings.Repeat("1,", 5000), ",") + `]}`, ReasonTooLarge, ""},
		{"properties", `{"type":"object","properties":{` + members(513, "true") + `}}`, ReasonTooLarge, "/properties"},
		{"enum", `{"type":"object","properties":{"a":{"enum":[` + strings.TrimSuffix(strings.Repeat("1,", 1001), ",") + `]}}}`, ReasonTooLarge, "/properties/a/enum"},
		{"pattern length", `{"type":"object","properties":{"a":{"pattern":"` + strings.Repeat("x", 1025) + `"}}}`, ReasonTooLarge, "/properties/a/pattern"},
		{"depth 17", `{"type":"object","x":` + nested("[", "", "]", 16) + `}`, ReasonTooDeep, ""},
		{"depth 65", `{"type":"object","x":` + nested("[", "", "]", 64) + `}`, ReasonTooDeep, ""},

		{"exponential refs", `{` + wide + `,"$defs":{` + doubled(22) + `},"$ref":"#/$defs/l0"}`, ReasonTooCostly, ""},
		{"exponential refs in a property", `{"type":"object","properties":{"a":{"$ref":"#/$defs/l0"}},"$defs":{` + doubled(22) + `}}`, ReasonTooCostly, ""},
		{"self reference in place", `{` + wide + `,"$ref":"#"}`, ReasonTooCostly, ""},
		{"mutual reference in place", `{` + wide + `,"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#/$defs/b"}},"b":{"if":{"$ref":"#/$defs/a"}}}}`, ReasonTooCostly, ""},
		{"self reference by $dynamicRef", `{` + wide + `,"$dynamicAnchor":"r","$dynamicRef":"#r"}`, ReasonTooCostly, ""},

		{"bad default", `{"type":"object","properties":{"n":{"type":"integer","default":"7"}}}`, ReasonBadDefault, "/properties/n"},
		{"bad default through $ref", `{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"minimum":3,"default":2}}}`, ReasonBadDefault, "/properties/n"},
		{"bad default in items", `{"type":"object","properties":{"l":{"items":{"properties":{"n":{"enum":[1],"default":2}}}}}}`, ReasonBadDefault, "/properties/l/items/properties/n"},
		{"default without end", `{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"properties":{"l":{"$ref":"#/$defs/n"},"r":{"$ref":"#/$defs/n"}},"default":{}}}}`, ReasonBadDefault, "/properties/n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := Compile(json.RawMessage(c.schema), Remote())
			var refused *SchemaError
			if !errors.As(err, &refused) {
				t.Fatalf("Compile = %v, %v", s, err)
			}
			if refused.Reason != c.reason || refused.Path != c.path {
				t.Errorf("refused %q at %q, want %q at %q", refused.Reason, refused.Path, c.reason, c.path)
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), secret) {
				t.Errorf("the error tells too much: %v", err)
			}
		})
	}
}

func TestCompileAccepts(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, schema string
		dialect      Dialect
		closed       bool
	}{
		{"no dialect", `{"type":"object"}`, Draft2020, true},
		{"2020-12", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}`, Draft2020, true},
		{"2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema#","type":"object"}`, Draft2019, true},
		{"draft-07", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`, Draft7, true},
		{"draft-06", `{"$schema":"http://json-schema.org/draft-06/schema","type":"object"}`, Draft6, true},
		{"draft-07 with applicator", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","allOf":[true]}`, Draft7, false},
		{"draft-07 declared open", `{"$schema":"http://json-schema.org/draft-07/schema#","additionalProperties":true,"type":"object","allOf":[true]}`, Draft7, true},
		{"draft-07 anchor", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#s"}},"definitions":{"s":{"$id":"#s"}}}`, Draft7, true},
		{"depth 16", `{"type":"object","x":` + nested("[", "", "]", 15) + `}`, Draft2020, true},
		{"whitespace does not count", `{"type":"object"` + strings.Repeat(" ", 40000) + `}`, Draft2020, true},
		{"some doubling", `{` + wide + `,"$defs":{` + doubled(8) + `},"$ref":"#/$defs/l0"}`, Draft2020, true},
		{"keywords as names and data", `{"type":"object","properties":{"$ref":{"type":"string"},"$id":{"const":{"$id":"file:///x","$ref":"http://x"}},"$schema":{"enum":[{"$schema":7}]},"pattern":{"default":"(?="}}}`, Draft2020, true},
		{"reference by own $id", `{"$id":"https://example.com/t","type":"object","properties":{"a":{"$ref":"https://example.com/t#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, Draft2020, true},
		{"unfilled default may be odd", `{"type":"object","default":7,"properties":{"a":{"anyOf":[{"properties":{"b":{"type":"string","default":1}}}]}}}`, Draft2020, true},
		{"default that fills itself", `{"type":"object","properties":{"o":{"default":{},"required":["n"],"properties":{"n":{"default":1}}}}}`, Draft2020, true},
		{"repeated class", `{"type":"object","properties":{"a":{"pattern":"^[\\p{L}\\p{N}._-]{1,255}$"}}}`, Draft2020, true},
		{"nullable default", `{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}}}`, Draft2020, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := Compile(json.RawMessage(c.schema), Remote())
			if err != nil {
				t.Fatal(err)
			}
			if s.Dialect() != c.dialect || s.Closed() != c.closed {
				t.Errorf("dialect %q closed %v, want %q %v", s.Dialect(), s.Closed(), c.dialect, c.closed)
			}
		})
	}
}

func TestBuiltinDialect(t *testing.T) {
	t.Parallel()
	_, err := Compile(json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`), Builtin())
	var refused *SchemaError
	if !errors.As(err, &refused) || refused.Reason != ReasonDialect {
		t.Errorf("error = %v, want reason %q", err, ReasonDialect)
	}
}

// TestSchemaBytesStay checks that compiling leaves the declared bytes alone:
// they are what is hashed and what the model reads.
func TestSchemaBytesStay(t *testing.T) {
	t.Parallel()
	const declared = "{ \"type\" : \"object\",\n \"properties\": {\"e\u0301\": {\"default\": 1.0}} }"
	schema := json.RawMessage(declared)
	s, err := Compile(schema, Remote())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Arguments(json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	if string(schema) != declared {
		t.Errorf("schema became %s", schema)
	}
}
