package gates

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/toolbus/toolbus/argschema"
	"github.com/toolbus/toolbus/canonical"
	"github.com/toolbus/toolbus/tool"
)

// TestGate09_CanonicalForm holds the canonical form to be one per meaning: two
// documents that differ only in the order of keys, the composition of
// characters, the spelling of numbers and strings, or in defaults left out, have
// the same bytes, hash and idempotency key; and the published vectors stand.
func TestGate09_CanonicalForm(t *testing.T) {
	t.Parallel()
	t.Run("vectors", gate09Vectors)
	t.Run("spellings", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			v := gate09Value(t, 3)
			one, two := v.spell(t, "one"), v.spell(t, "two")
			sameForm(t, one, two, canonical.Form)
		})
	})
	t.Run("meanings", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, gate09Meanings)
	})
	t.Run("defaults", func(t *testing.T) {
		t.Parallel()
		for name, o := range map[string]argschema.Options{"builtin": argschema.Builtin(), "remote": argschema.Remote()} {
			t.Run(name, func(t *testing.T) { gate09Defaults(t, o) })
		}
	})
}

func sameForm(t *rapid.T, one, two string, form func([]byte) ([]byte, error)) {
	t.Helper()
	a, err := form([]byte(one))
	if err != nil {
		t.Fatalf("%s: %v", one, err)
	}
	b, err := form([]byte(two))
	if err != nil {
		t.Fatalf("%s: %v", two, err)
	}
	if !bytes.Equal(a, b) {
		t.Fatalf("%s became %s, but %s became %s", one, a, two, b)
	}
	if again, err := form(a); err != nil || !bytes.Equal(again, a) {
		t.Fatalf("the form of %s is %s, %v", a, again, err)
	}
	if keyOf(a) != keyOf(b) {
		t.Fatal("one form has two keys")
	}
}

func keyOf(form []byte) string {
	return canonical.Key(canonical.KeyInput{
		Step: 1, CallID: "call", ToolName: "demo.echo", ToolVersion: "1", ArgumentsHash: canonical.Hash(form),
	})
}

// gate09Meanings checks the other direction: documents that differ in meaning
// have different forms.
func gate09Meanings(t *rapid.T) {
	one, two := gate09Value(t, 2), gate09Value(t, 2)
	a, err := canonical.Form([]byte(one.spell(t, "one")))
	if err != nil {
		t.Fatal(err)
	}
	b, err := canonical.Form([]byte(two.spell(t, "two")))
	if err != nil {
		t.Fatal(err)
	}
	if same := one.meaning() == two.meaning(); same != (canonical.Hash(a) == canonical.Hash(b)) {
		t.Fatalf("meanings equal: %v, forms %s and %s", same, a, b)
	}
}

// gate09Defaults proposes the same call with every subset of its defaults.
func gate09Defaults(t *testing.T, o argschema.Options) {
	t.Helper()
	schema := json.RawMessage(`{"type":"object","required":["caf\u00e9"],"properties":{
		"cafe\u0301":{"type":"string"},"limit":{"type":"integer","default":1e1},"ratio":{"default":0.50},
		"page":{"type":"object","default":{},"properties":{"size":{"default":25.0},"order":{"default":"A\u030a"}}}}}`)
	s, err := argschema.Compile(schema, o)
	if err != nil {
		t.Fatal(err)
	}
	arguments := func(raw []byte) ([]byte, error) { return s.Arguments(raw) }
	want := "{\"caf\u00e9\":\"x\",\"limit\":10,\"page\":{\"order\":\"\u00c5\",\"size\":25},\"ratio\":0.5}"
	rapid.Check(t, func(t *rapid.T) {
		all := []string{
			`"caf` + rapid.SampledFrom([]string{"\u00e9", "e\u0301", `\u00e9`, `\u0065\u0301`}).Draw(t, "name") + `":"x"`,
		}
		for _, spellings := range [][]string{
			{"", `"limit":10`, `"limit":10.0`, `"limit":1E1`},
			{"", `"ratio":0.5`, `"ratio":5e-1`},
			{"", `"page":{}`, `"page":{"size":25}`, `"page":{"order":"\u212b","size":2.5e1}`},
		} {
			if member := rapid.SampledFrom(spellings).Draw(t, "member"); member != "" {
				all = append(all, member)
			}
		}
		raw := "{" + strings.Join(rapid.Permutation(all).Draw(t, "order"), ",") + "}"
		sameForm(t, raw, want, arguments)
	})
}

// gate09Vectors replays the published file.
func gate09Vectors(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../canonical/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Forms []struct {
			Name, Input, Form, SHA256, Rule string
			InputHex                        string `json:"input_hex"`
		}
		Keys []struct {
			Name          string
			RunID         tool.ID `json:"run_id"`
			Step          int
			CallID        string `json:"call_id"`
			ToolName      string `json:"tool_name"`
			ToolVersion   string `json:"tool_version"`
			ArgumentsHash string `json:"arguments_hash"`
			Key           string
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Forms) < 100 || len(file.Keys) < 8 {
		t.Fatalf("the vector file has %d forms and %d keys", len(file.Forms), len(file.Keys))
	}
	for _, v := range file.Forms {
		input := []byte(v.Input)
		if v.InputHex != "" {
			if input, err = hex.DecodeString(v.InputHex); err != nil {
				t.Fatal(err)
			}
		}
		form, err := canonical.Form(input)
		if refused := err != nil; refused != (v.Rule != "") {
			t.Errorf("%s: form %s, error %v", v.Name, form, err)
			continue
		}
		if err == nil && (string(form) != v.Form || canonical.Hash(form) != v.SHA256) {
			t.Errorf("%s: form %s, hash %s", v.Name, form, canonical.Hash(form))
		}
	}
	for _, v := range file.Keys {
		in := canonical.KeyInput{
			RunID: v.RunID, Step: v.Step, CallID: v.CallID,
			ToolName: v.ToolName, ToolVersion: v.ToolVersion, ArgumentsHash: v.ArgumentsHash,
		}
		if got := canonical.Key(in); got != v.Key {
			t.Errorf("%s: key %s", v.Name, got)
		}
	}
}

// meant is a JSON value by its meaning, apart from any spelling of it.
type meant struct {
	kind    string // "word", "number", "text", "list" or "object"
	word    string
	digits  int // a number is digits times ten to the exponent
	power   int
	items   []meant
	members map[string]meant
}

var gate09Texts = []string{"", "a", "\u00e9", "\u1ea1\u0301", "\u00c5ngstr\u00f6m", "\ud55c\uae00", "\U0001F600", "</&>\"\\\n\x01", "\u0915\u093c"}

func gate09Value(t *rapid.T, depth int) meant {
	top := 4
	if depth == 0 {
		top = 2
	}
	switch rapid.IntRange(0, top).Draw(t, "kind") {
	case 0:
		return meant{kind: "word", word: rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")}
	case 1:
		return meant{
			kind:   "number",
			digits: rapid.IntRange(-999_999, 999_999).Draw(t, "digits"), power: rapid.IntRange(-12, 30).Draw(t, "power"),
		}
	case 2:
		return meant{kind: "text", word: rapid.SampledFrom(gate09Texts).Draw(t, "text")}
	case 3:
		list := meant{kind: "list"}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list.items = append(list.items, gate09Value(t, depth-1))
		}
		return list
	}
	object := meant{kind: "object", members: map[string]meant{}}
	for range rapid.IntRange(0, 4).Draw(t, "size") {
		object.members[rapid.SampledFrom(gate09Texts).Draw(t, "key")] = gate09Value(t, depth-1)
	}
	return object
}

// meaning gives equal strings for equal values.
func (m meant) meaning() string {
	switch m.kind {
	case "number":
		digits, power := m.digits, m.power
		for digits != 0 && digits%10 == 0 {
			digits, power = digits/10, power+1
		}
		if digits == 0 {
			power = 0
		}
		return fmt.Sprintf("number %d %d", digits, power)
	case "list":
		parts := make([]string, len(m.items))
		for i, item := range m.items {
			parts[i] = item.meaning()
		}
		return fmt.Sprintf("list %q", parts)
	case "object":
		parts := map[string]string{}
		for key, member := range m.members {
			parts[key] = member.meaning()
		}
		return fmt.Sprintf("object %q", parts) // fmt sorts the keys
	}
	return fmt.Sprintf("%s %q", m.kind, m.word)
}

// spell draws one of the many ways to write the value.
func (m meant) spell(t *rapid.T, label string) string {
	space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, label)
	switch m.kind {
	case "number":
		return spellNumber(t, label, m.digits, m.power)
	case "text":
		return spellText(t, label, m.word)
	case "list":
		parts := make([]string, len(m.items))
		for i, item := range m.items {
			parts[i] = item.spell(t, label)
		}
		return "[" + space + strings.Join(parts, space+","+space) + "]"
	case "object":
		var parts []string
		for _, key := range gate09Texts {
			if member, ok := m.members[key]; ok {
				parts = append(parts, spellText(t, label, key)+space+":"+member.spell(t, label))
			}
		}
		if len(parts) > 1 {
			parts = rapid.Permutation(parts).Draw(t, label)
		}
		return "{" + space + strings.Join(parts, ","+space) + space + "}"
	}
	return m.word
}

func spellNumber(t *rapid.T, label string, digits, power int) string {
	shift := rapid.IntRange(0, 8).Draw(t, label)
	whole := fmt.Sprintf("%d%s", digits, strings.Repeat("0", shift))
	if digits == 0 {
		whole = "0"
	}
	e := rapid.SampledFrom([]string{"e", "E"}).Draw(t, label)
	switch form := rapid.IntRange(0, 2).Draw(t, label); {
	case form == 0 && power >= 0 && digits != 0:
		return fmt.Sprintf("%d%s.%s", digits, strings.Repeat("0", power), strings.Repeat("0", shift+1))
	case form == 1:
		return fmt.Sprintf("%s.0%s%+d", whole, e, power-shift)
	}
	return fmt.Sprintf("%s%s%d", whole, e, power-shift)
}

func spellText(t *rapid.T, label, text string) string {
	if rapid.Bool().Draw(t, label) {
		text = norm.NFD.String(text)
	}
	escaped := rapid.Bool().Draw(t, label)
	var b strings.Builder
	for _, r := range text {
		if r >= ' ' && r != '"' && r != '\\' && !escaped {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return `"` + b.String() + `"`
}
