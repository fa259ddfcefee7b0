package canonical

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// TestComposeIsNFC compares the slow normalization with the library's on texts
// that both treat: runs of at most thirty marks.
func TestComposeIsNFC(t *testing.T) {
	t.Parallel()
	interesting := rapid.SampledFrom([]rune("aeEioåéệẹê\u0301\u0323\u0302\u0308\u030a\u0327\u0338\u0344\u0958\u093c\u0915\u1112\u1161\u11ab하한\u212b\u2126\u034f=<\u0f71\u0f72\u0f74"))
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOfN(rapid.OneOf(interesting, interesting, rapid.Rune()), 0, 10).Draw(t, "runes"))
		if got, want := string(compose([]byte(text))), norm.NFC.String(text); got != want {
			t.Fatalf("compose(%+q) = %+q, want %+q", text, got, want)
		}
	})
}

func TestLongMarkRuns(t *testing.T) {
	t.Parallel()
	composed := "\u1ea1" + strings.Repeat("\u0323", 39) + strings.Repeat("\u0301", 40)
	for _, spelling := range []string{
		"a" + strings.Repeat("\u0301\u0323", 40),
		"a" + strings.Repeat("\u0323\u0301", 40),
		"\u00e1" + strings.Repeat("\u0323\u0301", 39) + "\u0323",
		composed,
	} {
		got, err := checked([]byte(spelling))
		if err != nil || string(got) != composed {
			t.Errorf("%+q became %+q, %v", spelling, got, err)
		}
	}
}
