package calc

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Error says what is wrong with an expression and where. Both may be shown to the
// author of the expression: the text is fixed, but for names that are part of it.
type Error struct {
	// Position is the 1-based column, in bytes, of the offending part.
	Position int
	// Message is a short phrase.
	Message string
}

// Error gives column and message.
func (e *Error) Error() string { return fmt.Sprintf("column %d: %s", e.Position, e.Message) }

// Evaluate computes expression. The error is always an [*Error].
func Evaluate(expression string) (Value, error) {
	p := &parser{text: expression}
	if len(expression) > MaximumLength {
		return Value{}, p.fail(MaximumLength, "expression is too long")
	}
	p.advance()
	v, err := p.sum()
	if err != nil {
		return Value{}, err
	}
	if p.token != "" {
		return Value{}, p.unexpected()
	}
	return v, nil
}

// parser evaluates while it reads: there is no tree, and the only memory it holds is
// that of its values.
type parser struct {
	text  string
	next  int // where reading goes on
	start int // where token starts
	token string
	depth int
}

func (p *parser) fail(at int, message string) error {
	return &Error{Position: at + 1, Message: message}
}

func (p *parser) unexpected() error {
	switch {
	case p.token == "":
		return p.fail(p.start, "unexpected end")
	case isWord(p.token[0]) || isDigit(p.token[0]) || p.token[0] == '.':
		return p.fail(p.start, "an operator is missing")
	case strings.Contains("+-*/%^(),", p.token[:1]):
		return p.fail(p.start, "unexpected "+p.token)
	}
	return p.fail(p.start, "unknown character")
}

// advance reads the next token; the empty token is the end.
func (p *parser) advance() {
	for p.next < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.next]) >= 0 {
		p.next++
	}
	p.start = p.next
	if p.next == len(p.text) {
		p.token = ""
		return
	}
	switch c := p.text[p.next]; {
	case isDigit(c) || c == '.':
		p.next += numberLength(p.text[p.next:])
	case isWord(c):
		for p.next < len(p.text) && (isWord(p.text[p.next]) || isDigit(p.text[p.next])) {
			p.next++
		}
	case strings.HasPrefix(p.text[p.next:], "**"):
		p.next += 2
	default:
		p.next++
	}
	p.token = p.text[p.start:p.next]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// numberLength gives the length of digits [. digits] [e [sign] digits] at the start
// of s.
func numberLength(s string) int {
	digits := func(i int) int {
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		return i
	}
	n := digits(0)
	if n < len(s) && s[n] == '.' {
		n = digits(n + 1)
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		exponent := n + 1
		if exponent < len(s) && (s[exponent] == '+' || s[exponent] == '-') {
			exponent++
		}
		if end := digits(exponent); end > exponent {
			n = end
		}
	}
	return n
}

func (p *parser) sum() (Value, error) {
	return p.chain("+-", func() (Value, error) {
		return p.chain("*/%", p.unary)
	})
}

// chain reads operands joined by left-associative operators of one level.
func (p *parser) chain(operators string, operand func() (Value, error)) (Value, error) {
	left, err := operand()
	for err == nil && len(p.token) == 1 && strings.Contains(operators, p.token) {
		op, at := p.token, p.start
		p.advance()
		var right Value
		if right, err = operand(); err != nil {
			break
		}
		if left, err = binary(op, left, right); err != nil {
			err = p.fail(at, err.Error())
		}
	}
	return left, err
}

func (p *parser) unary() (Value, error) {
	negative := false
	for p.token == "+" || p.token == "-" {
		negative = negative != (p.token == "-")
		p.advance()
	}
	v, err := p.power()
	if err == nil && negative {
		v.rat = new(big.Rat).Neg(v.rat)
	}
	return v, err
}

func (p *parser) power() (Value, error) {
	if p.depth++; p.depth > maximumDepth {
		return Value{}, p.fail(p.start, "expression is nested too deeply")
	}
	defer func() { p.depth-- }()
	base, err := p.primary()
	if err != nil || (p.token != "^" && p.token != "**") {
		return base, err
	}
	at := p.start
	p.advance()
	exponent, err := p.unary()
	if err != nil {
		return Value{}, err
	}
	v, err := power(base, exponent)
	if err != nil {
		return Value{}, p.fail(at, err.Error())
	}
	return v, nil
}

func (p *parser) primary() (Value, error) {
	switch {
	case p.token == "":
		return Value{}, p.unexpected()
	case p.token == "(":
		p.advance()
		v, err := p.sum()
		if err != nil {
			return Value{}, err
		}
		return v, p.expect(")")
	case isDigit(p.token[0]) || p.token[0] == '.':
		v, err := parseNumber(p.token)
		if err != nil {
			return Value{}, p.fail(p.start, err.Error())
		}
		p.advance()
		return v, nil
	case isWord(p.token[0]):
		return p.word()
	}
	return Value{}, p.unexpected()
}

func (p *parser) expect(token string) error {
	if p.token != token {
		if p.token == "" {
			return p.fail(p.start, token+" is missing")
		}
		return p.unexpected()
	}
	p.advance()
	return nil
}

// word reads a constant or a call.
func (p *parser) word() (Value, error) {
	name, at := strings.ToLower(p.token), p.start
	p.advance()
	if digits, ok := constants[name]; ok && p.token != "(" {
		r, _ := new(big.Rat).SetString(digits)
		return Value{rat: r}, nil
	}
	f, ok := functions[name]
	if !ok {
		return Value{}, p.fail(at, "unknown name")
	}
	if p.token != "(" {
		return Value{}, p.fail(at, "a function needs its arguments in parentheses")
	}
	args, err := p.arguments()
	if err != nil {
		return Value{}, err
	}
	if len(args) < f.least || len(args) > f.most {
		return Value{}, p.fail(at, "wrong number of arguments")
	}
	v, err := f.call(args)
	if err != nil {
		return Value{}, p.fail(at, err.Error())
	}
	return v, nil
}

func (p *parser) arguments() ([]Value, error) {
	var args []Value
	for {
		p.advance() // past the parenthesis or the comma
		v, err := p.sum()
		if err != nil {
			return nil, err
		}
		args = append(args, v)
		if len(args) > maximumArgs {
			return nil, p.fail(p.start, "too many arguments")
		}
		if p.token != "," {
			return args, p.expect(")")
		}
	}
}

var errNumber = errors.New("not a number")

// parseNumber reads what numberLength delimits.
func parseNumber(s string) (Value, error) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	if strings.Trim(mantissa, ".") == "" {
		return Value{}, errNumber
	}
	if digits := strings.TrimLeft(exponent, "+-0"); len(digits) > 4 {
		return Value{}, errRange
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return Value{}, errNumber
	}
	return exact(r)
}
