package argschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/toolbus/toolbus/canonical"
)

// schemas reads the schemas of testdata: shapes that real servers publish.
func schemas(t testing.TB) [][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/schemas/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no schemas in testdata: %v", err)
	}
	var all [][]byte
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, raw)
	}
	return all
}

func TestPublishedShapes(t *testing.T) {
	t.Parallel()
	for _, schema := range schemas(t) {
		if _, err := Compile(schema, Remote()); err != nil {
			t.Errorf("%v: %s", err, schema)
		}
	}
}

// FuzzCompile holds for any bytes that compiling ends, refuses by a reason of
// the closed set, and gives a schema that can be used.
func FuzzCompile(f *testing.F) {
	for _, schema := range schemas(f) {
		f.Add(schema)
	}
	f.Add([]byte(`{"type":"object","x":{"$ref":"file:///etc/hosts"},"$ref":"#/x"}`))
	f.Add([]byte(`{"type":"object","$defs":{` + doubled(12) + `},"$ref":"#/$defs/l0"}`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		before := bytes.Clone(schema)
		s, err := Compile(schema, Remote())
		if !bytes.Equal(before, schema) {
			t.Fatal("the schema was changed")
		}
		if err != nil {
			var refused *SchemaError
			if !errors.As(err, &refused) || !slices.Contains(Reasons(), refused.Reason) || !utf8.ValidString(refused.Path) {
				t.Fatalf("refused by %#v", err)
			}
			return
		}
		use(t, s, []byte(`{}`))
		use(t, s, []byte(`{"a":[{"b":{"a":1}},"x",null,true,-1.5]}`))
	})
}

// FuzzArguments holds for any document under each published shape that it is
// refused by path and rule or has a canonical form which is its own form.
func FuzzArguments(f *testing.F) {
	var compiled []*Schema
	for i, schema := range schemas(f) {
		s, err := Compile(schema, Remote())
		if err != nil {
			f.Fatal(err)
		}
		compiled = append(compiled, s)
		f.Add(i, []byte(`{}`))
		f.Add(i, []byte(`{"path":"notes.md","head":1.0,"parent":{"type":"page_id","page_id":"x"},"filters":{"a":["b"]}}`))
	}
	f.Fuzz(func(t *testing.T, which int, raw []byte) {
		use(t, compiled[uint(which)%uint(len(compiled))], raw)
	})
}

func use(t *testing.T, s *Schema, raw []byte) {
	t.Helper()
	form, err := s.Arguments(raw)
	var refused *ArgumentError
	switch {
	case errors.Is(err, ErrQuarantined):
		t.Fatalf("quarantined by %q", raw)
	case errors.As(err, &refused):
		if refused.Rule == "" || !utf8.ValidString(refused.Path) {
			t.Fatalf("refused by %#v", refused)
		}
		return
	case err != nil:
		t.Fatalf("error of another type: %#v", err)
	}
	if again, err := canonical.Form(form); err != nil || !bytes.Equal(again, form) {
		t.Fatalf("no canonical form: %s, %v", form, err)
	}
	if again, err := s.Arguments(json.RawMessage(form)); err != nil || !bytes.Equal(again, form) {
		t.Fatalf("form of %s is %s, %v", form, again, err)
	}
}

func BenchmarkArguments(b *testing.B) {
	schema := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","minLength":1},"text":{"type":"string"},"append":{"type":"boolean","default":false}},"required":["path","text"]}`)
	raw := json.RawMessage(`{"text":"hello, world","path":"notes/today.md"}`)
	for name, o := range map[string]Options{"builtin": Builtin(), "remote": Remote()} {
		s, err := Compile(schema, o)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Arguments(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
