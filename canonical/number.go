package canonical

import (
	"bytes"
	"math"
	"strconv"
)

// appendNumber writes the canonical spelling of a literal that follows JSON's
// number grammar.
func appendNumber(dst, literal []byte) ([]byte, *Error) {
	if bytes.ContainsAny(literal, ".eE") {
		return appendDecimal(dst, literal)
	}
	digits := literal
	if digits[0] == '-' {
		digits = digits[1:]
		if digits[0] == '0' {
			return dst, refuse(RuleNegativeZero)
		}
	}
	if len(digits) > MaximumDigits {
		return dst, refuse(RuleDigits)
	}
	return append(dst, literal...), nil
}

// appendDecimal writes a literal that has a fraction or an exponent: as an
// integer if that is its value, decided on the digits and never on a float.
func appendDecimal(dst, literal []byte) ([]byte, *Error) {
	var buffer [64]byte
	negative, digits, scale := split(buffer[:0], literal)
	if len(digits) == 0 {
		if negative {
			return dst, refuse(RuleNegativeZero)
		}
		return append(dst, '0'), nil
	}
	if scale < 0 {
		return appendFraction(dst, literal)
	}
	if len(digits)+scale > MaximumDigits {
		return dst, refuse(RuleDigits)
	}
	if negative {
		dst = append(dst, '-')
	}
	return appendZeros(append(dst, digits...), scale), nil
}

// farScale stands for every exponent that no document is long enough to bring
// back into range.
const farScale = 1 << 40

// split takes a literal apart: its value is digits times ten to the scale, with
// neither leading nor trailing zeros in digits, and no digits for zero.
func split(buffer, literal []byte) (negative bool, digits []byte, scale int) {
	if literal[0] == '-' {
		negative, literal = true, literal[1:]
	}
	mantissa, exponent := literal, 0
	if e := bytes.IndexAny(literal, "eE"); e >= 0 {
		mantissa, exponent = literal[:e], parseExponent(literal[e+1:])
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte{'.'})
	digits = append(append(buffer, whole...), fraction...)
	scale = exponent - len(fraction)
	digits = bytes.TrimLeft(digits, "0")
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		scale++
	}
	return negative, digits, scale
}

func parseExponent(text []byte) int {
	sign := 1
	switch text[0] {
	case '-':
		sign, text = -1, text[1:]
	case '+':
		text = text[1:]
	}
	n := 0
	for _, c := range text {
		n = min(n*10+int(c-'0'), farScale)
	}
	return sign * n
}

// appendFraction writes a literal whose value is no integer as the nearest
// double. What rounds to negative zero is a spelling of it.
func appendFraction(dst, literal []byte) ([]byte, *Error) {
	f, err := strconv.ParseFloat(string(literal), 64)
	if err != nil {
		return dst, refuse(RuleOverflow)
	}
	if f == 0 {
		if math.Signbit(f) {
			return dst, refuse(RuleNegativeZero)
		}
		return append(dst, '0'), nil
	}
	return appendDouble(dst, f), nil
}

// appendDouble is ECMAScript's Number::toString (ECMA-262, 6.1.6.1.20) for a
// finite f that is not zero, without its exponent for large values: those are
// integers and have to read as such.
func appendDouble(dst []byte, f float64) []byte {
	var buffer [32]byte
	short := strconv.AppendFloat(buffer[:0], math.Abs(f), 'e', -1, 64)
	e := bytes.IndexByte(short, 'e')
	point := parseExponent(short[e+1:]) + 1 // n of the standard: digits before the point
	digits := append(short[:1], bytes.TrimPrefix(short[1:e], []byte{'.'})...)
	if f < 0 {
		dst = append(dst, '-')
	}
	switch {
	case point >= len(digits):
		return appendZeros(append(dst, digits...), point-len(digits))
	case point > 0:
		dst = append(append(dst, digits[:point]...), '.')
		return append(dst, digits[point:]...)
	case point > -6:
		dst = appendZeros(append(dst, '0', '.'), -point)
		return append(dst, digits...)
	}
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	return strconv.AppendInt(append(dst, 'e'), int64(point-1), 10)
}

func appendZeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}
