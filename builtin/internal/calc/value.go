package calc

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Bounds on what one expression may cost.
const (
	// MaximumLength of an expression, in bytes.
	MaximumLength = 4096
	maximumDepth  = 100
	// maximumBits bounds numerator and denominator of every intermediate value.
	maximumBits = 1 << 16
	maximumArgs = 100
)

// Value is a number. Exact tells whether it is the mathematical result.
type Value struct {
	rat   *big.Rat
	Exact bool
}

var (
	errRange   = errors.New("number is too large")
	errDomain  = errors.New("argument is outside the domain of the function")
	errDivide  = errors.New("division by zero")
	errInteger = errors.New("an integer is required")
)

func exact(r *big.Rat) (Value, error) { return bounded(Value{rat: r, Exact: true}) }

func bounded(v Value) (Value, error) {
	if v.rat.Num().BitLen() > maximumBits || v.rat.Denom().BitLen() > maximumBits {
		return Value{}, errRange
	}
	return v, nil
}

// approximate takes a float; one that is no number is outside the domain.
func approximate(f float64) (Value, error) {
	if math.IsNaN(f) {
		return Value{}, errDomain
	}
	if math.IsInf(f, 0) {
		return Value{}, errRange
	}
	return Value{rat: new(big.Rat).SetFloat64(f)}, nil
}

func (v Value) float() float64 {
	f, _ := v.rat.Float64()
	return f
}

// Fraction gives numerator/denominator, or the integer alone.
func (v Value) Fraction() string { return v.rat.RatString() }

// Decimal writes v as a decimal number with at most digits digits after the point
// (at least 0), rounded half away from zero, without trailing zeros. The second
// result tells whether nothing was lost. An approximate value has at most fifteen
// significant digits and, when very large or small, an exponent.
func (v Value) Decimal(digits int) (string, bool) {
	if !v.Exact {
		return strconv.FormatFloat(v.float(), 'g', 15, 64), false
	}
	if v.rat.IsInt() {
		return v.rat.Num().String(), true
	}
	text := v.rat.FloatString(digits)
	back, ok := new(big.Rat).SetString(text)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		text = "0"
	}
	return text, ok && back.Cmp(v.rat) == 0
}

// binary applies an operator.
func binary(op string, a, b Value) (Value, error) {
	r := new(big.Rat)
	switch op {
	case "+":
		r.Add(a.rat, b.rat)
	case "-":
		r.Sub(a.rat, b.rat)
	case "*":
		r.Mul(a.rat, b.rat)
	case "/":
		if b.rat.Sign() == 0 {
			return Value{}, errDivide
		}
		r.Quo(a.rat, b.rat)
	case "%":
		if b.rat.Sign() == 0 {
			return Value{}, errDivide
		}
		q := floor(new(big.Rat).Quo(a.rat, b.rat))
		r.Sub(a.rat, r.Mul(b.rat, q))
	default:
		return power(a, b)
	}
	return bounded(Value{rat: r, Exact: a.Exact && b.Exact})
}

// power is exact for integer exponents, and for a half, which is a square root.
func power(base, exponent Value) (Value, error) {
	if exponent.Exact && exponent.rat.IsInt() {
		return integerPower(base, exponent.rat.Num())
	}
	if exponent.Exact && exponent.rat.Cmp(big.NewRat(1, 2)) == 0 {
		return squareRoot(base)
	}
	if base.rat.Sign() == 0 && exponent.rat.Sign() < 0 {
		return Value{}, errDivide
	}
	return approximate(math.Pow(base.float(), exponent.float()))
}

func integerPower(base Value, n *big.Int) (Value, error) {
	negative := n.Sign() < 0
	if base.rat.Sign() == 0 && negative {
		return Value{}, errDivide
	}
	num, den := base.rat.Num(), base.rat.Denom()
	unit := den.IsInt64() && den.Int64() == 1 && num.IsInt64() && num.Int64() >= -1 && num.Int64() <= 1
	size := max(num.BitLen(), den.BitLen())
	e := new(big.Int).Abs(n)
	switch {
	case unit && e.Sign() != 0: // 0, 1 and -1 have every power; only its parity matters
		e = big.NewInt(2).Sub(big.NewInt(2), new(big.Int).And(e, big.NewInt(1)))
	case !e.IsInt64() || e.Int64() > maximumBits || int64(size-1)*e.Int64() > maximumBits:
		return Value{}, errRange // known before it is computed
	}
	r := new(big.Rat).SetFrac(new(big.Int).Exp(num, e, nil), new(big.Int).Exp(den, e, nil))
	if negative {
		r.Inv(r)
	}
	return bounded(Value{rat: r, Exact: base.Exact})
}

// squareRoot is exact for squares of rationals.
func squareRoot(v Value) (Value, error) {
	if v.rat.Sign() < 0 {
		return Value{}, errDomain
	}
	num, den := new(big.Int).Sqrt(v.rat.Num()), new(big.Int).Sqrt(v.rat.Denom())
	root := new(big.Rat).SetFrac(num, den)
	if v.Exact && new(big.Rat).Mul(root, root).Cmp(v.rat) == 0 {
		return exact(root)
	}
	return approximate(math.Sqrt(v.float()))
}

// floor gives the greatest integer that is not above r.
func floor(r *big.Rat) *big.Rat {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	_ = m // Euclidean with a positive divisor: the quotient is the floor
	return new(big.Rat).SetInt(q)
}
