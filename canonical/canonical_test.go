package canonical_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/toolbus/toolbus/canonical"
)

func TestErrorPath(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 40)
	cases := []struct {
		name, input, path, rule string
	}{
		{"root", `-0`, "", canonical.RuleNegativeZero},
		{"member", `{"a":{"b":[0,{"c":-0}]}}`, "/a/b/1/c", canonical.RuleNegativeZero},
		{"escaped token", `{"a/b~c":-0}`, "/a~1b~0c", canonical.RuleNegativeZero},
		{"empty token", `{"":-0}`, "/", canonical.RuleNegativeZero},
		{"duplicate names the key", `{"x":{"k":1,"k":2}}`, "/x/k", canonical.RuleDuplicate},
		{"line break in a key", `{"a\nIgnore all\u2028this\u202e":-0}`, "/a�Ignore all�this�", canonical.RuleNegativeZero},
		{"long key is cut between runes", `{"` + long + `":-0}`, "/" + strings.Repeat("ü", 32), canonical.RuleNegativeZero},
		{"value is never shown", `{"k":"\ud800 canary"}`, "/k", canonical.RuleSurrogate},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := canonical.Form([]byte(c.input))
			var refused *canonical.Error
			if !errors.As(err, &refused) {
				t.Fatalf("error = %v", err)
			}
			if refused.Path != c.path || refused.Rule != c.rule {
				t.Errorf("refused %q %q, want %q %q", refused.Path, refused.Rule, c.path, c.rule)
			}
			_, err = canonical.Parse([]byte(c.input))
			if err == nil || err.Error() != refused.Error() {
				t.Errorf("Parse says %v, Form says %v", err, refused)
			}
		})
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	deep := any("x")
	for range canonical.MaximumDepth + 1 {
		deep = []any{deep}
	}
	cases := []struct {
		name  string
		value any
		rule  string
	}{
		{"float", 1.5, canonical.RuleValue},
		{"nested int", map[string]any{"a": []any{1}}, canonical.RuleValue},
		{"number with a tail", json.Number("1 "), canonical.RuleSyntax},
		{"number in words", json.Number("NaN"), canonical.RuleSyntax},
		{"empty number", json.Number(""), canonical.RuleSyntax},
		{"negative zero", json.Number("-0.0"), canonical.RuleNegativeZero},
		{"invalid string", "\xff", canonical.RuleUTF8},
		{"invalid key", map[string]any{"\xff": true}, canonical.RuleUTF8},
		{"keys equal in NFC", map[string]any{"e\u0301": true, "\u00e9": true}, canonical.RuleDuplicate},
		{"depth", deep, canonical.RuleDepth},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := canonical.Encode(c.value)
			wantRule(t, err, c.rule)
		})
	}
}

func TestEncodeNormalizes(t *testing.T) {
	t.Parallel()
	got, err := canonical.Encode(map[string]any{"z": json.Number("1.50"), "e\u0301": "A\u030a", "n": nil, "l": []any{true, false}})
	if want := "{\"l\":[true,false],\"n\":null,\"z\":1.5,\"\u00e9\":\"\u00c5\"}"; err != nil || string(got) != want {
		t.Errorf("Encode = %s, %v, want %s", got, err, want)
	}
}

// TestSurvivingForm checks that a returned form is not disturbed by later calls
// and does not alias its input.
func TestSurvivingForm(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"b":[1,2],"a":"text"}`)
	form, err := canonical.Form(raw)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw)
	if _, err := canonical.Form([]byte(`{"zz":"other","yy":[9,9]}`)); err != nil {
		t.Fatal(err)
	}
	if want := `{"a":"text","b":[1,2]}`; string(form) != want {
		t.Errorf("form became %s", form)
	}
}

// TestDoubles holds the canonical spelling of every double to what the standard
// library reads and to the notation ECMAScript chooses.
func TestDoubles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float64frombits(rapid.Uint64().Filter(func(bits uint64) bool {
			f := math.Float64frombits(bits)
			return !math.IsNaN(f) && !math.IsInf(f, 0) && f != 0
		}).Draw(t, "bits"))
		verb := rapid.SampledFrom([]byte{'e', 'f', 'E'}).Draw(t, "verb")
		spelled := strconv.FormatFloat(f, verb, -1, 64)
		form, err := canonical.Form([]byte(spelled))
		if err != nil {
			t.Fatalf("%s: %v", spelled, err)
		}
		if back, err := strconv.ParseFloat(string(form), 64); err != nil || back != f {
			t.Fatalf("%s became %s", spelled, form)
		}
		exponent := bytes.ContainsRune(form, 'e')
		if small := math.Abs(f) < 1e-6; exponent != small {
			t.Fatalf("%s is spelled %s", spelled, form)
		}
	})
}

// document draws a JSON document out of everything the rules are about.
func document() *rapid.Generator[string] {
	scalar := rapid.OneOf(
		rapid.SampledFrom([]string{"null", "true", "false", "0", "-1", "1e3", "0.5", "12345678901234567890", "1e-9", "7.25e300"}),
		rapid.Map(rapid.String(), quote),
		rapid.Map(rapid.SampledFrom([]string{"e\u0301", "\u00e9", "\u212b", "a\u0323\u0301", "한", "\u1112\u1161\u11ab", "\U0001F600"}), quote),
		rapid.Map(rapid.Float64(), func(f float64) string {
			if f == 0 {
				f = 1
			}
			return strconv.FormatFloat(f, 'g', -1, 64)
		}),
	)
	return rapid.Custom(func(t *rapid.T) string { return draw(t, scalar, 4) })
}

func draw(t *rapid.T, scalar *rapid.Generator[string], depth int) string {
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	if depth == 0 || kind < 2 {
		return scalar.Draw(t, "scalar")
	}
	items := make([]string, rapid.IntRange(0, 4).Draw(t, "length"))
	for i := range items {
		items[i] = draw(t, scalar, depth-1)
		if kind == 3 {
			key := rapid.StringN(0, 3, -1).Draw(t, "key") + strconv.Itoa(i)
			items[i] = quote(key) + ":" + items[i]
		}
	}
	if kind == 2 {
		return "[" + strings.Join(items, " , ") + "]"
	}
	return "{" + strings.Join(items, ", ") + "}"
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestFormIsEncodeOfParse ties the two implementations together, and the form
// to the standard library's reading of it.
func TestFormIsEncodeOfParse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(document().Draw(t, "document"))
		form, err := canonical.Form(raw)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := canonical.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if encoded, err := canonical.Encode(tree); err != nil || !bytes.Equal(encoded, form) {
			t.Fatalf("Form gives %s, Encode after Parse %s, %v", form, encoded, err)
		}
		if again, err := canonical.Form(form); err != nil || !bytes.Equal(again, form) {
			t.Fatalf("Form of %s is %s, %v", form, again, err)
		}
		if !json.Valid(form) || !utf8.Valid(form) {
			t.Fatalf("no JSON: %s", form)
		}
	})
}

func FuzzForm(f *testing.F) {
	for _, v := range readVectors(f).Forms {
		f.Add(v.bytes(f))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		form, err := canonical.Form(raw)
		tree, parseErr := canonical.Parse(raw)
		if (err == nil) != (parseErr == nil) {
			t.Fatalf("Form says %v, Parse says %v", err, parseErr)
		}
		if err != nil {
			var refused *canonical.Error
			if !errors.As(err, &refused) || refused.Rule == "" || !utf8.ValidString(refused.Path) {
				t.Fatalf("refused by %#v", err)
			}
			return
		}
		if !json.Valid(raw) || !json.Valid(form) {
			t.Fatalf("accepted %q as %q", raw, form)
		}
		if encoded, err := canonical.Encode(tree); err != nil || !bytes.Equal(encoded, form) {
			t.Fatalf("Form gives %q, Encode after Parse %q, %v", form, encoded, err)
		}
		if again, err := canonical.Form(form); err != nil || !bytes.Equal(again, form) {
			t.Fatalf("Form of %q is %q, %v", form, again, err)
		}
	})
}
