package outcome

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestScrubFindsEveryForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9/+"<&=% ~:é\n]{6,40}`).Draw(t, "secret")
		before := rapid.StringMatching(`[a-z]{0,5}`).Draw(t, "before")
		after := rapid.StringMatching(`[a-z]{0,5}`).Draw(t, "after")
		html, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		forms := map[string]string{
			"plain": secret,
			"hex":   hex.EncodeToString([]byte(secret)),
			"HEX":   strings.ToUpper(hex.EncodeToString([]byte(secret))),
			"query": url.QueryEscape(secret),
			"path":  url.PathEscape(secret),
			"json":  string(html[1 : len(html)-1]),
			"ours":  strings.TrimSuffix(strings.TrimPrefix(string(appendString(nil, secret)), `"`), `"`),
		}
		for name, form := range forms {
			if got := Scrub(before+"|"+form+"|"+after, []string{secret}); !strings.Contains(got, redacted) || strings.Contains(got, form) {
				t.Fatalf("%s: %q becomes %q", name, form, got)
			}
		}
		for name, enc := range map[string]*base64.Encoding{
			"std": base64.StdEncoding, "url": base64.URLEncoding, "raw std": base64.RawStdEncoding, "raw url": base64.RawURLEncoding,
		} {
			text := enc.EncodeToString([]byte(before + secret + after))
			if got := Scrub(text, []string{secret}); !strings.Contains(got, redacted) || len(got) > len(text)-len(secret)+len(redacted)+4 {
				t.Fatalf("%s base64 of %q+%q+%q: %q becomes %q", name, before, secret, after, text, got)
			}
		}
	})
}

func TestScrub(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text    string
		secrets []string
		want    string
	}{
		{"nothing to hide", nil, "nothing to hide"},
		{"an abc is too short", []string{"abc", ""}, "an abc is too short"},
		{"key=abcd, key=abcd", []string{"abcd"}, "key=[redacted], key=[redacted]"},
		{"longer first: abcdef abcd", []string{"abcd", "abcdef"}, "longer first: [redacted] [redacted]"},
		{"Basic dXNlcjpodW50ZXIy", []string{"hunter2"}, "Basic dXNlcjp[redacted]"},
		{"%68%75%6e%74%65%72%32", []string{"hunter2"}, "[redacted]"},
		{"a%2fb+c a%2Fb%20c a%2fb%20c", []string{"a/b c"}, "[redacted] [redacted] [redacted]"},
		{`quote a\"bcd`, []string{`a"bcd`}, "quote [redacted]"},
		{`ends in quote abc\"`, []string{`abc"`}, "ends in quote [redacted]"},
	} {
		if got := Scrub(tt.text, tt.secrets); got != tt.want {
			t.Errorf("Scrub(%q, %q) = %q, want %q", tt.text, tt.secrets, got, tt.want)
		}
	}
	var none *Scrubber
	if got := none.Scrub("kept") + (&Scrubber{}).Scrub(" too"); got != "kept too" {
		t.Errorf("an empty scrubber changes %q", got)
	}
}
