package canonical

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// checked refuses invalid UTF-8 and gives text in NFC, text itself if it is.
func checked(text []byte) ([]byte, *Error) {
	if !utf8.Valid(text) {
		return nil, refuse(RuleUTF8)
	}
	if norm.NFC.IsNormal(text) {
		return text, nil
	}
	normal := norm.NFC.Bytes(text)
	if bytes.Count(normal, graphemeJoiner) != bytes.Count(text, graphemeJoiner) {
		return compose(text), nil
	}
	return normal, nil
}

// checkedString is checked for a string; one that is plain costs nothing.
func checkedString(text string) (string, *Error) {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			normal, err := checked([]byte(text))
			return string(normal), err
		}
	}
	return text, nil
}

// graphemeJoiner is U+034F. The norm package inserts one into every run of more
// than thirty combining marks (the stream-safe text format). That is not NFC,
// other languages do not do it, and where it lands depends on the spelling; such
// a text goes through compose instead.
var graphemeJoiner = []byte("\u034f")

// mark is a code point with its canonical combining class.
type mark struct {
	r     rune
	class uint8
}

// compose is NFC by the definition of Unicode, section 3.11: decompose, order
// the marks, compose. It is slow and only for texts that norm does not treat.
func compose(text []byte) []byte {
	marks := make([]mark, 0, len(text))
	for _, r := range string(text) {
		for _, d := range norm.NFD.String(string(r)) {
			marks = append(marks, mark{d, norm.NFD.PropertiesString(string(d)).CCC()})
		}
	}
	for i := 0; i < len(marks); {
		end := i + 1
		if marks[i].class != 0 {
			for end < len(marks) && marks[end].class != 0 {
				end++
			}
			slices.SortStableFunc(marks[i:end], func(a, b mark) int { return int(a.class) - int(b.class) })
		}
		i = end
	}
	done, starter := marks[:0], -1
	for _, m := range marks {
		last := len(done) - 1
		if starter >= 0 && (last == starter || done[last].class < m.class) {
			if r, ok := pair(done[starter].r, m.r); ok {
				done[starter].r = r
				continue
			}
		}
		if m.class == 0 {
			starter = len(done)
		}
		done = append(done, m)
	}
	out := make([]byte, 0, len(text))
	for _, m := range done {
		out = utf8.AppendRune(out, m.r)
	}
	return out
}

// pair gives the primary composite of two code points, if there is one.
func pair(a, b rune) (rune, bool) {
	both := norm.NFC.String(string([]rune{a, b}))
	r, size := utf8.DecodeRuneInString(both)
	return r, size == len(both)
}

const hexDigits = "0123456789abcdef"

// appendQuoted writes text as a JSON string with the escapes of RFC 8785,
// section 3.2.2.2.
func appendQuoted[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}
