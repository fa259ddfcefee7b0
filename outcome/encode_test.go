package outcome

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/toolbus/toolbus/tool"
)

// anyText draws texts that are costly to escape as often as plain ones.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringOfN(rapid.RuneFrom([]rune("ab\"\\\n\t\x01\b<&é漢😀\u2028")), 0, 400, -1),
	)
}

func TestStringEncodingIsMinimalAndMeasured(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := anyText().Draw(t, "s")
		encoded := appendString(nil, s)
		if got := stringCost(s) + len(`""`); got != len(encoded) {
			t.Fatalf("cost %d, length %d", got, len(encoded))
		}
		var back string
		if err := json.Unmarshal(encoded, &back); err != nil || back != s {
			t.Fatalf("%s decodes to %q (%v)", encoded, back, err)
		}
	})
	if got := string(appendString(nil, "</a>&\u2028\xff")); got != "\"</a>&\u2028\uFFFD\"" {
		t.Errorf("got %s", got)
	}
}

func TestPrefixAndSuffixAreTheLongest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := anyText().Draw(t, "s")
		budget := rapid.IntRange(-3, stringCost(s)+3).Draw(t, "budget")
		prefix, suffix := prefixWithin(s, budget), suffixWithin(s, budget)
		if !strings.HasPrefix(s, prefix) || !strings.HasSuffix(s, suffix) {
			t.Fatalf("prefix %q, suffix %q", prefix, suffix)
		}
		for _, part := range []string{prefix, suffix} {
			if !utf8.ValidString(part) || (part != "" && stringCost(part) > budget) {
				t.Fatalf("%q breaks the budget %d", part, budget)
			}
		}
		if prefix != s {
			r, _ := utf8.DecodeRuneInString(s[len(prefix):])
			if stringCost(prefix)+runeCost(r) <= budget {
				t.Fatalf("%q leaves out %q", prefix, r)
			}
		}
		if suffix != s {
			r, _ := utf8.DecodeLastRuneInString(s[:len(s)-len(suffix)])
			if stringCost(suffix)+runeCost(r) <= budget {
				t.Fatalf("%q leaves out %q", suffix, r)
			}
		}
	})
}

func TestContentCostIsTheLength(t *testing.T) {
	t.Parallel()
	ref := tool.ArtifactRef{ID: tool.ID{1}, MediaType: "text/plain", Bytes: 12, SHA256: strings.Repeat("a", 64)}
	for _, parts := range [][]tool.Part{
		nil, {tool.Text("")}, {tool.Text("a\n"), tool.ArtifactPart(ref), tool.Text("é\x00")},
	} {
		encoded := appendContent(nil, parts)
		if got := contentCost(parts); got != len(encoded) {
			t.Errorf("cost %d, length %d of %s", got, len(encoded), encoded)
		}
		var back []tool.Part
		if err := json.Unmarshal(encoded, &back); err != nil || len(back) != len(parts) {
			t.Errorf("%s: %v", encoded, err)
		}
	}
}
