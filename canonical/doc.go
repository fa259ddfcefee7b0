// Package canonical turns a JSON document into the one byte string that stands
// for it, and derives the hash and the idempotency key from those bytes
// (specification, "Argument validation and the canonical form" and "The key").
//
// The form is not RFC 8785: keys and strings are NFC-normalized, keys stand in
// code-point order, and a number with an integer value keeps every digit.
//
//   - Objects: keys NFC, then ascending code points, no whitespace. Two keys
//     that are equal after normalization are refused.
//   - Strings: NFC, escaped as RFC 8785 says (two-character escapes where JSON
//     has them, \u00xx for the other controls, everything else as it is).
//   - Numbers with an integer value, however spelled (1, 1.0, 1e2): decimal
//     digits, at most [MaximumDigits]. Every other number: the nearest IEEE
//     double as ECMAScript's Number::toString writes it, except that a double
//     which is itself an integer is written without an exponent, so that the
//     form of a form is the form.
//   - Refused: lone surrogates, invalid UTF-8, every spelling of negative zero,
//     overflow, nesting beyond [MaximumDepth], anything after the value.
//
// All functions are pure and safe for concurrent use.
package canonical

// The limits of a document.
const (
	// MaximumDigits is how many digits an integer value may have.
	MaximumDigits = 400
	// MaximumDepth is how deep arrays and objects may nest; a document that is
	// one array or object has depth 1, a scalar has depth 0.
	MaximumDepth = 64
)
