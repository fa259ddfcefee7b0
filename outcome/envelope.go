package outcome

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrNonce says that the source of nonces gave none that can close an envelope:
// malformed, or contained in the text each time.
var ErrNonce = errors.New("no usable nonce")

// nonceAttempts bounds the search for a nonce that the text does not contain.
// With a random source the first one is good.
const nonceAttempts = 8

var (
	nonceGrammar = regexp.MustCompile(`^[A-Za-z0-9_-]{8,64}$`)
	notInSource  = regexp.MustCompile(`[^A-Za-z0-9._:/-]`)
)

// NewNonce draws 128 random bits in lowercase hex.
func NewNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails: it aborts the process instead
	return hex.EncodeToString(b[:])
}

func nonceOr(nonce func() string) func() string {
	if nonce == nil {
		return NewNonce
	}
	return nonce
}

// envelope frames untrusted text. The text stays as it is: whatever it spells,
// it does not know the nonce that ends it.
type envelope struct {
	source string
	nonce  func() string
}

// wrap puts text between an opening and a closing line of its own.
func (e envelope) wrap(text string) (string, error) {
	for range nonceAttempts {
		nonce := e.nonce()
		if !nonceGrammar.MatchString(nonce) || strings.Contains(text, nonce) {
			continue
		}
		source := notInSource.ReplaceAllString(e.source, "_")
		return fmt.Sprintf("<untrusted source=%q nonce=%q>\n%s\n%s", source, nonce, text, closing(nonce)), nil
	}
	return "", ErrNonce
}

func closing(nonce string) string { return `</untrusted nonce="` + nonce + `">` }

var openingLine = regexp.MustCompile(`^<untrusted source="[A-Za-z0-9._:/-]*" nonce="([A-Za-z0-9_-]{8,64})">\n`)

// openNonce gives the nonce of the envelope that text begins with, and the
// length of its opening line; zero length for none.
func openNonce(text string) (nonce string, length int) {
	m := openingLine.FindStringSubmatch(text)
	if m == nil {
		return "", 0
	}
	return m[1], len(m[0])
}
