// Package calc evaluates arithmetic expressions written by strangers: exactly where
// that is possible, deterministically everywhere, and within fixed bounds of time and
// memory.
//
// Numbers are rationals of arbitrary precision. The four operations, remainder,
// integer powers, roots of perfect powers and the integer functions are exact; the transcendental
// functions go through float64 and mark the value approximate, and so does every value
// computed from one. An approximate value is shown with fifteen significant digits,
// which all platforms agree on.
//
// Grammar, from the weakest binding:
//
//	sum     = product { ("+" | "-") product }
//	product = unary { ("*" | "/" | "%") unary }
//	unary   = { "+" | "-" } power
//	power   = primary [ ("^" | "**") unary ]          (right associative)
//	primary = number | constant | function "(" sum { "," sum } ")" | "(" sum ")"
//
// so -2^2 is -4 and 2^-1 is a half. The remainder takes the sign of the divisor.
package calc
