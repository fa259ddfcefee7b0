package canonical

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The values of [Error.Rule]: every way in which a document is refused.
const (
	RuleSyntax       = "must be one JSON value"
	RuleTrailing     = "must end after the value"
	RuleUTF8         = "must be valid UTF-8"
	RuleSurrogate    = "must not hold a lone surrogate"
	RuleDuplicate    = "must not hold the same key twice"
	RuleNegativeZero = "must not be negative zero"
	RuleOverflow     = "must fit an IEEE double"
	RuleDigits       = "must have at most 400 digits"
	RuleDepth        = "must not nest deeper than 64"
	RuleValue        = "must be a value that Parse returns"
)

// Error says which rule a document breaks and where. It never holds a value of
// the document; keys appear in Path only, as [AppendToken] writes them.
type Error struct {
	// Path is a JSON Pointer to the offending value, "" for the document.
	Path string
	// Rule is one of the Rule constants.
	Rule string
}

// Error gives path and rule.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Rule
	}
	return e.Path + ": " + e.Rule
}

func refuse(rule string) *Error { return &Error{Rule: rule} }

// under prepends a token while an error climbs towards the root.
func (e *Error) under(token string) *Error {
	e.Path = AppendToken("", token) + e.Path
	return e
}

// at prepends the index of an array element.
func (e *Error) at(index int) *Error { return e.under(strconv.Itoa(index)) }

// maximumToken is how many bytes of a key a pointer shows.
const maximumToken = 64

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// AppendToken appends an object key to a JSON Pointer for a reader: escaped,
// cut to 64 bytes at a rune boundary, with control and format characters
// replaced by U+FFFD. Keys are foreign text, so a pointer made of them must
// carry neither length nor line breaks.
func AppendToken(pointer, key string) string {
	if len(key) > maximumToken {
		cut := maximumToken
		for cut > 0 && !utf8.RuneStart(key[cut]) {
			cut--
		}
		key = key[:cut]
	}
	key = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return utf8.RuneError
		}
		return r
	}, key)
	return pointer + "/" + pointerEscapes.Replace(key)
}
