package outcome

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

const (
	redacted = "[redacted]"
	// minimumSecret is the length below which a value is too common to redact.
	minimumSecret = 4
)

// Scrub replaces every secret in s by "[redacted]": as it is, and in the
// encodings in which a service might echo it: base64 (standard and URL
// alphabet, padded or not, at each of the three alignments inside a longer
// value), hexadecimal, percent-encoded and JSON-escaped. Secrets shorter than
// four bytes are ignored. Use [NewScrubber] for more than one text.
func Scrub(s string, secrets []string) string { return NewScrubber(secrets).Scrub(s) }

// Scrubber is a prepared [Scrub]. It is safe for concurrent use; the nil and the
// zero Scrubber change nothing.
type Scrubber struct{ replacer *strings.Replacer }

// NewScrubber prepares the forms of secrets.
func NewScrubber(secrets []string) *Scrubber {
	var forms []string
	for _, secret := range secrets {
		if len(secret) >= minimumSecret {
			forms = append(forms, secretForms(secret)...)
		}
	}
	if len(forms) == 0 {
		return &Scrubber{}
	}
	// Longest first: a form that contains another must win where both begin.
	slices.SortFunc(forms, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	forms = slices.Compact(forms)
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, redacted)
	}
	return &Scrubber{replacer: strings.NewReplacer(pairs...)}
}

// Scrub replaces every form of every secret in s.
func (s *Scrubber) Scrub(text string) string {
	if s == nil || s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// secretForms lists the spellings of one secret.
func secretForms(secret string) []string {
	lower := hex.EncodeToString([]byte(secret))
	query, path := url.QueryEscape(secret), url.PathEscape(secret)
	quoted := string(appendString(nil, secret))
	plainJSON := quoted[1 : len(quoted)-1]
	forms := []string{
		secret, lower, strings.ToUpper(lower),
		query, path, lowerEscapes(query), lowerEscapes(path), lowerEscapes(percentAll(secret)), percentAll(secret),
		plainJSON, strings.ReplaceAll(plainJSON, "/", `\/`),
	}
	if html, err := json.Marshal(secret); err == nil {
		forms = append(forms, string(html[1:len(html)-1]))
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		forms = append(forms, enc.EncodeToString([]byte(secret)),
			enc.WithPadding(base64.NoPadding).EncodeToString([]byte(secret)))
		for shift := range 3 {
			forms = append(forms, base64Core(enc, secret, shift))
		}
	}
	return slices.DeleteFunc(forms, func(form string) bool { return len(form) < minimumSecret })
}

// base64Core gives the characters that the secret alone determines when shift
// bytes precede it in its group of three and any bytes may follow.
func base64Core(enc *base64.Encoding, secret string, shift int) string {
	data := append(make([]byte, shift), secret...)
	text := enc.WithPadding(base64.NoPadding).EncodeToString(data)
	if len(data)%3 != 0 {
		text = text[:len(text)-1]
	}
	if shift > 0 {
		text = text[shift+1:]
	}
	return text
}

// percentAll escapes every byte.
func percentAll(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{s[i]})))
	}
	return b.String()
}

// lowerEscapes spells percent escapes with lowercase digits.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

// cleanText makes a text that every store and encoder takes: secrets are
// redacted, then what is no UTF-8 and every NUL becomes U+FFFD.
func cleanText(s string, scrub *Scrubber) string {
	const replacement = "\uFFFD"
	return strings.ReplaceAll(strings.ToValidUTF8(scrub.Scrub(s), replacement), "\x00", replacement)
}
