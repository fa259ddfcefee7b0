package outcome

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrStructuredInvalid says that structured data is no JSON, or holds what the
// stores cannot keep: U+0000, a lone surrogate, nesting beyond 64, a number
// beyond 400 decimal digits. The call it belongs to fails tool.output_invalid.
var ErrStructuredInvalid = errors.New("structured result is invalid")

const (
	maximumDepth  = 64
	maximumDigits = 400
)

// normalize gives the one spelling of structured data that survives a jsonb
// column, so that a recorded outcome can be published again with the same bytes:
// compact, members in byte order of their keys, the last of two equal keys,
// numbers without exponent, strings escaped only where JSON demands it. Secrets
// are redacted in keys, strings and numbers. Nothing and null give nil.
func normalize(raw json.RawMessage, scrub *Scrubber) (json.RawMessage, error) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		return nil, nil
	}
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return nil, fmt.Errorf("%w: not JSON", ErrStructuredInvalid)
	}
	n := normalizer{in: raw, scrub: scrub}
	return n.value(make([]byte, 0, len(raw)), 1)
}

// normalizer walks text that json.Valid accepted, so it needs no bounds checks
// of its own beyond what the grammar guarantees.
type normalizer struct {
	in    []byte
	at    int
	scrub *Scrubber
}

// next skips white space and gives the byte that follows, without taking it.
func (n *normalizer) next() byte {
	for strings.IndexByte(" \t\r\n", n.in[n.at]) >= 0 {
		n.at++
	}
	return n.in[n.at]
}

func (n *normalizer) value(out []byte, depth int) ([]byte, error) {
	switch c := n.next(); c {
	case '{', '[':
		if depth > maximumDepth {
			return nil, fmt.Errorf("%w: nested deeper than %d", ErrStructuredInvalid, maximumDepth)
		}
		n.at++
		if c == '{' {
			return n.object(out, depth)
		}
		return n.array(out, depth)
	case '"':
		s, err := n.str()
		if err != nil {
			return nil, err
		}
		return appendString(out, s), nil
	case 't', 'f', 'n':
		return append(out, n.literal()...), nil
	default:
		return n.number(out)
	}
}

func (n *normalizer) array(out []byte, depth int) ([]byte, error) {
	out = append(out, '[')
	for first := true; n.next() != ']'; first = false {
		if !first {
			n.at++ // the comma
			out = append(out, ',')
		}
		var err error
		if out, err = n.value(out, depth+1); err != nil {
			return nil, err
		}
	}
	n.at++
	return append(out, ']'), nil
}

type member struct {
	key   string
	value []byte
}

func (n *normalizer) object(out []byte, depth int) ([]byte, error) {
	var members []member
	for first := true; n.next() != '}'; first = false {
		if !first {
			n.at++ // the comma
			n.next()
		}
		key, err := n.str()
		if err != nil {
			return nil, err
		}
		n.next()
		n.at++ // the colon
		value, err := n.value(nil, depth+1)
		if err != nil {
			return nil, err
		}
		members = append(members, member{key, value})
	}
	n.at++
	slices.SortStableFunc(members, func(a, b member) int { return strings.Compare(a.key, b.key) })
	out = append(out, '{')
	for i, m := range members {
		if i+1 < len(members) && members[i+1].key == m.key {
			continue
		}
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = append(append(appendString(out, m.key), ':'), m.value...)
	}
	return append(out, '}'), nil
}

// literal takes a number or a word up to the next delimiter.
func (n *normalizer) literal() string {
	start := n.at
	for n.at < len(n.in) && strings.IndexByte(",]} \t\r\n", n.in[n.at]) < 0 {
		n.at++
	}
	return string(n.in[start:n.at])
}

// str takes a string literal and gives its decoded, redacted value.
func (n *normalizer) str() (string, error) {
	start := n.at
	for n.at++; n.in[n.at] != '"'; n.at++ {
		if n.in[n.at] == '\\' {
			n.at++
		}
	}
	n.at++
	literal := n.in[start:n.at]
	if err := checkEscapes(literal); err != nil {
		return "", err
	}
	var s string
	if err := json.Unmarshal(literal, &s); err != nil {
		return "", fmt.Errorf("%w: %w", ErrStructuredInvalid, err)
	}
	return n.scrub.Scrub(s), nil
}

// checkEscapes refuses U+0000 and lone surrogates, which decoding would hide.
func checkEscapes(literal []byte) error {
	for i := 0; i < len(literal); i++ {
		if literal[i] != '\\' {
			continue
		}
		i++
		if literal[i] != 'u' {
			continue
		}
		r := hexRune(literal[i+1 : i+5])
		i += 4
		switch {
		case r == 0:
			return fmt.Errorf("%w: U+0000", ErrStructuredInvalid)
		case utf16.IsSurrogate(r):
			rest := literal[i+1:]
			if len(rest) < 6 || rest[0] != '\\' || rest[1] != 'u' ||
				utf16.DecodeRune(r, hexRune(rest[2:6])) == utf8.RuneError {
				return fmt.Errorf("%w: lone surrogate", ErrStructuredInvalid)
			}
			i += 6
		}
	}
	return nil
}

func hexRune(digits []byte) rune {
	v, _ := strconv.ParseUint(string(digits), 16, 16) // four hex digits, by json.Valid
	return rune(v)
}

// number takes a number and writes it without an exponent, digit for digit as
// a numeric column prints it.
func (n *normalizer) number(out []byte) ([]byte, error) {
	literal := n.literal()
	if n.scrub.Scrub(literal) != literal {
		return appendString(out, redacted), nil
	}
	mantissa, exponent := literal, 0
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(literal[i+1:]); err != nil || max(exponent, -exponent) > maximumDigits {
			return nil, fmt.Errorf("%w: number out of range", ErrStructuredInvalid)
		}
		mantissa = literal[:i]
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if len(whole)+len(fraction)+max(exponent, -exponent) > maximumDigits {
		return nil, fmt.Errorf("%w: number out of range", ErrStructuredInvalid)
	}
	if exponent >= 0 {
		fraction += strings.Repeat("0", max(exponent-len(fraction), 0))
		whole, fraction = whole+fraction[:exponent], fraction[exponent:]
	} else {
		whole = strings.Repeat("0", max(-exponent-len(whole), 0)) + whole
		cut := len(whole) + exponent
		whole, fraction = whole[:cut], whole[cut:]+fraction
	}
	whole = strings.TrimLeft(whole, "0")
	if whole == "" {
		whole = "0"
	}
	if negative && strings.Trim(whole+fraction, "0") != "" {
		out = append(out, '-')
	}
	out = append(out, whole...)
	if fraction != "" {
		out = append(append(out, '.'), fraction...)
	}
	return out, nil
}
