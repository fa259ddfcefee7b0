package calc_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolbus/toolbus/builtin/internal/calc"
)

func TestEvaluate(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"1+2*3":                  "7",
		"(1+2)*3":                "9",
		"0.1+0.2":                "0.3",
		"1/3*3":                  "1",
		"2^10":                   "1024",
		"2**-2":                  "0.25",
		"2^3^2":                  "512",
		"-2^2":                   "-4",
		"2^-1":                   "0.5",
		"--3":                    "3",
		"7 % 3":                  "1",
		"-7 % 3":                 "2",
		"7 % -3":                 "-2",
		"5.5 % 2":                "1.5",
		"10/4":                   "2.5",
		"8-3-2":                  "3",
		"100/10/2":               "5",
		"1e3":                    "1000",
		"1.5E-2":                 "0.015",
		".5+5.":                  "5.5",
		"2^100":                  "1267650600228229401496703205376",
		"(-1)^1000000000000000":  "1",
		"(-1)^1000000000000001":  "-1",
		"0^0":                    "1",
		"sqrt(16)":               "4",
		"sqrt(2.25)":             "1.5",
		"4^0.5":                  "2",
		"round(2.5)":             "3",
		"round(-2.5)":            "-3",
		"round(1234.567, 2)":     "1234.57",
		"round(1234.567, -2)":    "1200",
		"floor(-1.5)":            "-2",
		"floor(-3)":              "-3",
		"ceil(-1.5)":             "-1",
		"trunc(-1.5)":            "-1",
		"abs(-3) + sign(-8)":     "2",
		"min(3, 1, 2)":           "1",
		"max(3, 1, 2)":           "3",
		"mean(1, 2, 6)":          "3",
		"sum(0.1, 0.2)":          "0.3",
		"gcd(12, -18)":           "6",
		"lcm(4, 6)":              "12",
		"lcm(0, 6)":              "0",
		"factorial(20)":          "2432902008176640000",
		"choose(52, 5)":          "2598960",
		"POW(2, 0.5) * 0 + 1":    "1",
		"\t2\n *\r 3 ":           "6",
		"ln(e)":                  "1",
		"sin(pi/6)":              "0.5",
		"hypot(3, 4)":            "5",
		"sqrt(2)":                "1.4142135623731",
		"log10(1e300) + log2(8)": "303",
		"exp(0)":                 "1",
		"atan2(1, 1)*4 - pi":     "0",
		"1e400 / 1e399":          "10",
		"round(2/3, 3)":          "0.667",
		"1 - 0.9999999999999999": "0.0000000000000001",
		strings.Repeat("(", 90) + "1" + strings.Repeat(")", 90): "1",
	} {
		v, err := calc.Evaluate(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		got, _ := v.Decimal(30)
		if expression == "sqrt(2)" || expression == "atan2(1, 1)*4 - pi" {
			// the shortest fifteen digits, or a rounding error far below them
			if expression == "sqrt(2)" && got != "1.4142135623731" && got != "1.4142135623730951"[:len(got)] {
				t.Errorf("sqrt(2) = %s", got)
			}
			if v.Exact {
				t.Errorf("%s claims to be exact", expression)
			}
			continue
		}
		if got != want {
			t.Errorf("%s = %s, want %s", expression, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"":                        "column 1: unexpected end",
		"1+":                      "column 3: unexpected end",
		"1 2":                     "column 3: an operator is missing",
		"(1":                      "column 3: ) is missing",
		"1)":                      "column 2: unexpected )",
		"2 $ 3":                   "column 3: unknown character",
		"é":                       "column 1: unknown character",
		"nope(1)":                 "column 1: unknown name",
		"1 + x":                   "column 5: unknown name",
		"sqrt":                    "column 1: a function needs its arguments in parentheses",
		"sqrt()":                  "column 6: unexpected )",
		"sqrt(1,2)":               "column 1: wrong number of arguments",
		"1/0":                     "column 2: division by zero",
		"5 % (1-1)":               "column 3: division by zero",
		"0^-1":                    "column 2: division by zero",
		"0^-0.5":                  "column 2: division by zero",
		"sqrt(-1)":                "column 1: argument is outside the domain of the function",
		"ln(-1)":                  "column 1: argument is outside the domain of the function",
		"ln(0)":                   "column 1: number is too large",
		"(-8)^(1/3)":              "column 5: argument is outside the domain of the function",
		"2^100000":                "column 2: number is too large",
		"10^10^10":                "column 3: number is too large",
		"1e99999":                 "column 1: number is too large",
		"factorial(5001)":         "column 1: number is too large",
		"factorial(-1)":           "column 1: argument is outside the domain of the function",
		"gcd(1.5, 2)":             "column 1: an integer is required",
		"choose(1e9, 2)":          "column 1: number is too large",
		"round(1, 1e9)":           "column 1: number is too large",
		".":                       "column 1: not a number",
		"1..2":                    "column 3: an operator is missing",
		"exp(1e9)":                "column 1: number is too large",
		strings.Repeat("(", 101):  "column 101: expression is nested too deeply",
		strings.Repeat("1", 4097): "column 4097: expression is too long",
		"max(" + strings.Repeat("1,", 200) + "1)": "column 206: too many arguments",
	} {
		_, err := calc.Evaluate(expression)
		var e *calc.Error
		if !errors.As(err, &e) || e.Error() != want {
			t.Errorf("%.40q: %v, want %s", expression, err, want)
		}
	}
}

// TestExactArithmetic compares whole expressions with big.Rat.
func TestExactArithmetic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := big.NewRat(rapid.Int64().Draw(t, "a"), rapid.Int64Range(1, 1<<40).Draw(t, "b"))
		c := big.NewRat(rapid.Int64().Draw(t, "c"), rapid.Int64Range(1, 1<<40).Draw(t, "d"))
		op := rapid.SampledFrom([]string{"+", "-", "*"}).Draw(t, "op")
		want := new(big.Rat)
		switch op {
		case "+":
			want.Add(a, c)
		case "-":
			want.Sub(a, c)
		case "*":
			want.Mul(a, c)
		}
		v, err := calc.Evaluate("(" + a.String() + ")" + op + "(" + c.String() + ")")
		if err != nil {
			t.Fatal(err)
		}
		if v.Fraction() != want.RatString() || !v.Exact {
			t.Fatalf("got %s, want %s", v.Fraction(), want.RatString())
		}
		// division with remainder: a = q*c + r and r lies between 0 and c
		if c.Sign() != 0 {
			r, err := calc.Evaluate("(" + a.String() + ")%(" + c.String() + ")")
			if err != nil {
				t.Fatal(err)
			}
			rest, _ := new(big.Rat).SetString(r.Fraction())
			quotient := new(big.Rat).Quo(new(big.Rat).Sub(a, rest), c)
			if !quotient.IsInt() || rest.Sign()*c.Sign() < 0 || new(big.Rat).Abs(rest).Cmp(new(big.Rat).Abs(c)) >= 0 {
				t.Fatalf("%s %% %s = %s", a, c, rest)
			}
		}
	})
}

func FuzzEvaluate(f *testing.F) {
	for _, seed := range []string{"1+2*3", "sqrt(2)^-1e3", "max(1,2)%3", "((((", "1e9999/3", "factorial(4000)^2", "-.5e-5**2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		v, err := calc.Evaluate(expression)
		if err != nil {
			var e *calc.Error
			if !errors.As(err, &e) || e.Position < 1 || e.Position > len(expression)+1 {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := calc.Evaluate(expression)
		if err != nil || again.Fraction() != v.Fraction() {
			t.Fatalf("not deterministic: %s, then %s (%v)", v.Fraction(), again.Fraction(), err)
		}
		_, _ = v.Decimal(50)
	})
}
