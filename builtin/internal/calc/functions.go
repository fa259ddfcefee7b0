package calc

import (
	"math"
	"math/big"
)

// function is one callable name; its number of arguments is from least to most.
type function struct {
	least, most int
	call        func(args []Value) (Value, error)
}

// constants are written with more digits than a float holds.
var constants = map[string]string{
	"pi":  "3.14159265358979323846264338327950288419716939937510582097494459",
	"e":   "2.71828182845904523536028747135266249775724709369995957496696763",
	"tau": "6.28318530717958647692528676655900576839433879875021164194988918",
	"phi": "1.61803398874989484820458683436563811772030917980576286213544862",
}

var functions = map[string]function{
	"abs":   {1, 1, func(a []Value) (Value, error) { return Value{new(big.Rat).Abs(a[0].rat), a[0].Exact}, nil }},
	"sign":  {1, 1, func(a []Value) (Value, error) { return exact(big.NewRat(int64(a[0].rat.Sign()), 1)) }},
	"floor": {1, 1, func(a []Value) (Value, error) { return Value{floor(a[0].rat), a[0].Exact}, nil }},
	"ceil": {1, 1, func(a []Value) (Value, error) {
		r := floor(new(big.Rat).Neg(a[0].rat))
		return Value{r.Neg(r), a[0].Exact}, nil
	}},
	"trunc": {1, 1, func(a []Value) (Value, error) {
		q := new(big.Int).Quo(a[0].rat.Num(), a[0].rat.Denom())
		return Value{new(big.Rat).SetInt(q), a[0].Exact}, nil
	}},
	"round": {1, 2, round},
	"min":   {1, maximumArgs, func(a []Value) (Value, error) { return pick(a, -1), nil }},
	"max":   {1, maximumArgs, func(a []Value) (Value, error) { return pick(a, 1), nil }},
	"sum":   {1, maximumArgs, sum},
	"mean": {1, maximumArgs, func(a []Value) (Value, error) {
		total, err := sum(a)
		if err != nil {
			return Value{}, err
		}
		return binary("/", total, Value{big.NewRat(int64(len(a)), 1), true})
	}},
	"sqrt":      {1, 1, func(a []Value) (Value, error) { return squareRoot(a[0]) }},
	"pow":       {2, 2, func(a []Value) (Value, error) { return power(a[0], a[1]) }},
	"gcd":       {2, 2, gcd},
	"lcm":       {2, 2, lcm},
	"factorial": {1, 1, factorial},
	"choose":    {2, 2, choose},
	"exp":       {1, 1, float(math.Exp)},
	"ln":        {1, 1, float(math.Log)},
	"log2":      {1, 1, float(math.Log2)},
	"log10":     {1, 1, float(math.Log10)},
	"cbrt":      {1, 1, float(math.Cbrt)},
	"sin":       {1, 1, float(math.Sin)},
	"cos":       {1, 1, float(math.Cos)},
	"tan":       {1, 1, float(math.Tan)},
	"asin":      {1, 1, float(math.Asin)},
	"acos":      {1, 1, float(math.Acos)},
	"atan":      {1, 1, float(math.Atan)},
	"atan2":     {2, 2, func(a []Value) (Value, error) { return approximate(math.Atan2(a[0].float(), a[1].float())) }},
	"hypot":     {2, 2, func(a []Value) (Value, error) { return approximate(math.Hypot(a[0].float(), a[1].float())) }},
}

func float(f func(float64) float64) func([]Value) (Value, error) {
	return func(a []Value) (Value, error) {
		x := a[0].float()
		if math.IsInf(x, 0) {
			return Value{}, errRange
		}
		return approximate(f(x))
	}
}

// round rounds half away from zero, to the given number of decimal places.
func round(a []Value) (Value, error) {
	places := int64(0)
	if len(a) == 2 {
		n, err := integer(a[1])
		if err != nil {
			return Value{}, err
		}
		if !n.IsInt64() || n.Int64() < -1000 || n.Int64() > 1000 {
			return Value{}, errRange
		}
		places = n.Int64()
	}
	scale := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(places, -places)), nil))
	if places < 0 {
		scale.Inv(scale)
	}
	scaled := new(big.Rat).Mul(a[0].rat, scale)
	half := big.NewRat(int64(scaled.Sign()), 2)
	scaled.Add(scaled, half)
	q := new(big.Int).Quo(scaled.Num(), scaled.Denom())
	return bounded(Value{new(big.Rat).Quo(new(big.Rat).SetInt(q), scale), a[0].Exact})
}

// pick gives the least (-1) or greatest (1) value; it is exact only if all are, since
// an approximate one may be on the wrong side.
func pick(a []Value, direction int) Value {
	best, all := a[0], true
	for _, v := range a {
		if v.rat.Cmp(best.rat) == direction {
			best = v
		}
		all = all && v.Exact
	}
	best.Exact = all
	return best
}

func sum(a []Value) (Value, error) {
	total := Value{new(big.Rat), true}
	var err error
	for _, v := range a {
		if total, err = binary("+", total, v); err != nil {
			return Value{}, err
		}
	}
	return total, nil
}

func integer(v Value) (*big.Int, error) {
	if !v.rat.IsInt() {
		return nil, errInteger
	}
	return v.rat.Num(), nil
}

func integers(a []Value) (x, y *big.Int, err error) {
	if x, err = integer(a[0]); err != nil {
		return nil, nil, err
	}
	y, err = integer(a[1])
	return x, y, err
}

func gcd(a []Value) (Value, error) {
	x, y, err := integers(a)
	if err != nil {
		return Value{}, err
	}
	r := new(big.Int).GCD(nil, nil, new(big.Int).Abs(x), new(big.Int).Abs(y))
	return Value{new(big.Rat).SetInt(r), a[0].Exact && a[1].Exact}, nil
}

func lcm(a []Value) (Value, error) {
	divisor, err := gcd(a)
	if err != nil {
		return Value{}, err
	}
	if divisor.rat.Sign() == 0 {
		return divisor, nil
	}
	r := new(big.Rat).Quo(a[0].rat, divisor.rat)
	r.Abs(r.Mul(r, a[1].rat))
	return bounded(Value{r, divisor.Exact})
}

func factorial(a []Value) (Value, error) {
	n, err := integer(a[0])
	if err != nil {
		return Value{}, err
	}
	if n.Sign() < 0 {
		return Value{}, errDomain
	}
	if !n.IsInt64() || n.Int64() > 5000 {
		return Value{}, errRange
	}
	return bounded(Value{new(big.Rat).SetInt(new(big.Int).MulRange(1, n.Int64())), a[0].Exact})
}

func choose(a []Value) (Value, error) {
	n, k, err := integers(a)
	if err != nil {
		return Value{}, err
	}
	if n.Sign() < 0 || k.Sign() < 0 {
		return Value{}, errDomain
	}
	if !n.IsInt64() || !k.IsInt64() || n.Int64() > 20_000 {
		return Value{}, errRange
	}
	return bounded(Value{new(big.Rat).SetInt(new(big.Int).Binomial(n.Int64(), k.Int64())), a[0].Exact && a[1].Exact})
}
