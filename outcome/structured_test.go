package outcome

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNormalize(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, tt := range map[string]struct{ in, want string }{
		"nothing":        {"", ""},
		"null":           {" null\n", ""},
		"null inside":    {"[ null , true,false ]", "[null,true,false]"},
		"order":          {`{"b":1,"a":{"d":[],"c":{}}}`, `{"a":{"c":{},"d":[]},"b":1}`},
		"last duplicate": {`{"a":1,"a":2,"b":3}`, `{"a":2,"b":3}`},
		"escaped key":    {`{"\u0061":1,"a":2}`, `{"a":2}`},
		"escapes":        {`"\u003c\/\u00e9\ud83d\ude00\n\u0001\u2028"`, "\"</é😀\\n\\u0001\u2028\""},
		"backslash u":    {`"\\u0000"`, `"\\u0000"`},
		"secret":         {`{"hunter2":"x hunter2","n":[4711, 14711]}`, `{"[redacted]":"x [redacted]","n":["[redacted]","[redacted]"]}`},
		"deepest":        {nested(64), nested(64)},

		"exponent":          {`1e2`, `100`},
		"fraction exponent": {`1.50e1`, `15.0`},
		"large exponent":    {`-1.5E+3`, `-1500`},
		"small exponent":    {`12e-4`, `0.0012`},
		"scale is kept":     {`1.10`, `1.10`},
		"negative zero":     {`[-0,-0.0,-0e3]`, `[0,0.0,0]`},
		"big integer":       {`123456789012345678901234567890`, `123456789012345678901234567890`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := normalize(json.RawMessage(tt.in), NewScrubber([]string{"hunter2", "4711"}))
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
		})
	}
	for name, in := range map[string]string{
		"no JSON": `{`, "two values": `1 2`, "no UTF-8": "\"\xff\"", "NUL": `"a\u0000"`, "NUL key": `{"\u0000":1}`,
		"lone high": `"\ud800"`, "lone low": `"\udc00x"`, "high then letter": `"\ud800\u0041"`,
		"too deep": nested(65), "too large": `1e401`, "too small": `1e-401`,
		"huge exponent": `1e99999999999999999999`, "too many digits": strings.Repeat("9", 401),
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			t.Parallel()
			if got, err := normalize(json.RawMessage(in), nil); !errors.Is(err, ErrStructuredInvalid) {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

// jsonValue draws a JSON value as encoding/json would decode it.
func jsonValue(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just(any(nil)), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).AsAny(),
		rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != 0 })).AsAny(),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.SliceOfN(jsonValue(depth-1), 0, 4).AsAny(),
		rapid.MapOfN(rapid.StringMatching(`[a-zé"\\]{0,5}`), jsonValue(depth-1), 0, 4).AsAny(),
	)
}

func TestNormalizeKeepsTheValueAndIsStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.MarshalIndent(jsonValue(3).Draw(t, "value"), "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		once, err := normalize(raw, nil)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		twice, err := normalize(once, nil)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s becomes %s (%v)", once, twice, err)
		}
		if !sameJSON(t, raw, once) {
			t.Fatalf("%s and %s differ", raw, once)
		}
	})
}

func sameJSON(tb rapid.TB, a, b []byte) bool {
	tb.Helper()
	again := func(raw []byte) []byte {
		if len(raw) == 0 {
			raw = []byte("null")
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			tb.Fatalf("%s: %v", raw, err)
		}
		out, err := json.Marshal(v)
		if err != nil {
			tb.Fatalf("%v: %v", v, err)
		}
		return out
	}
	// Negative zero has no spelling of its own in the stores.
	return bytes.Equal(bytes.ReplaceAll(again(a), []byte("-0"), []byte("0")), bytes.ReplaceAll(again(b), []byte("-0"), []byte("0")))
}

func FuzzNormalize(f *testing.F) {
	f.Add([]byte(`{"a":[1e2,"\ud83d\ude00",{"b":null}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		once, err := normalize(raw, nil)
		if err != nil {
			if !errors.Is(err, ErrStructuredInvalid) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		twice, err := normalize(once, nil)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q becomes %q, then %q (%v)", raw, once, twice, err)
		}
		if len(once) > 0 && !json.Valid(once) {
			t.Fatalf("%q is no JSON", once)
		}
	})
}
