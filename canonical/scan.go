package canonical

import (
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads the tokens of a JSON document; [Form] and [Parse] are two
// consumers of it. Nothing is converted that need not be: a token is a slice of
// the input unless it holds an escape or is not in NFC.
type scanner struct {
	in    []byte
	pos   int
	depth int
}

// next skips whitespace and gives the byte that follows without consuming it,
// or 0 at the end. A NUL in the input starts no token either.
func (s *scanner) next() byte {
	for s.pos < len(s.in) {
		switch c := s.in[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// take consumes c, after whitespace, if it comes next.
func (s *scanner) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.pos++
	return true
}

func (s *scanner) end() *Error {
	if s.next(); s.pos < len(s.in) {
		return refuse(RuleTrailing)
	}
	return nil
}

func (s *scanner) open() *Error {
	if s.depth == MaximumDepth {
		return refuse(RuleDepth)
	}
	s.depth++
	s.pos++
	return nil
}

// more is called before each element of an array or object and says whether
// there is one; it consumes the separator or the closing byte.
func (s *scanner) more(first bool, closing byte) (bool, *Error) {
	if s.take(closing) {
		s.depth--
		return false, nil
	}
	if !first && !s.take(',') {
		return false, refuse(RuleSyntax)
	}
	return true, nil
}

// key reads an object key and the colon behind it.
func (s *scanner) key() ([]byte, *Error) {
	if s.next() != '"' {
		return nil, refuse(RuleSyntax)
	}
	key, err := s.text()
	if err != nil {
		return nil, err
	}
	if !s.take(':') {
		return nil, refuse(RuleSyntax)
	}
	return key, nil
}

func (s *scanner) word(w string) *Error {
	if len(s.in)-s.pos < len(w) || string(s.in[s.pos:s.pos+len(w)]) != w {
		return refuse(RuleSyntax)
	}
	s.pos += len(w)
	return nil
}

// number gives the literal that starts here, checked against the grammar only.
func (s *scanner) number() ([]byte, *Error) {
	start := s.pos
	if s.at('-') {
		s.pos++
	}
	if s.at('0') {
		s.pos++
	} else if s.digits() == 0 {
		return nil, refuse(RuleSyntax)
	}
	if s.at('.') {
		s.pos++
		if s.digits() == 0 {
			return nil, refuse(RuleSyntax)
		}
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		if s.digits() == 0 {
			return nil, refuse(RuleSyntax)
		}
	}
	return s.in[start:s.pos], nil
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.in) && s.in[s.pos] == c }

func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.in) && s.in[s.pos]-'0' <= 9 {
		s.pos++
	}
	return s.pos - start
}

// text reads a string, the quote being next, and gives it decoded and in NFC.
func (s *scanner) text() ([]byte, *Error) {
	s.pos++
	start, ascii := s.pos, true
	for s.pos < len(s.in) {
		switch c := s.in[s.pos]; {
		case c == '"':
			raw := s.in[start:s.pos]
			s.pos++
			if ascii {
				return raw, nil
			}
			return checked(raw)
		case c == '\\':
			return s.escapedText(start)
		case c < ' ':
			return nil, refuse(RuleSyntax)
		case c >= utf8.RuneSelf:
			ascii = false
		}
		s.pos++
	}
	return nil, refuse(RuleSyntax)
}

// escapedText goes on where text met the first escape of the string that
// started at start.
func (s *scanner) escapedText(start int) ([]byte, *Error) {
	out := append(make([]byte, 0, s.pos-start+32), s.in[start:s.pos]...)
	for s.pos < len(s.in) {
		c := s.in[s.pos]
		s.pos++
		switch {
		case c == '"':
			return checked(out)
		case c < ' ':
			return nil, refuse(RuleSyntax)
		case c != '\\':
			out = append(out, c)
		default:
			r, err := s.escape()
			if err != nil {
				return nil, err
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return nil, refuse(RuleSyntax)
}

// escape reads what follows a backslash.
func (s *scanner) escape() (rune, *Error) {
	if s.pos == len(s.in) {
		return 0, refuse(RuleSyntax)
	}
	c := s.in[s.pos]
	s.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return s.codePoint()
	}
	return 0, refuse(RuleSyntax)
}

// codePoint reads the digits of a \u escape, and the second half of a pair.
func (s *scanner) codePoint() (rune, *Error) {
	r, err := s.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if !s.at('\\') || s.pos+1 >= len(s.in) || s.in[s.pos+1] != 'u' {
		return 0, refuse(RuleSurrogate)
	}
	s.pos += 2
	low, err := s.hex4()
	if err != nil {
		return 0, err
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, refuse(RuleSurrogate)
	}
	return r, nil
}

func (s *scanner) hex4() (rune, *Error) {
	if len(s.in)-s.pos < 4 {
		return 0, refuse(RuleSyntax)
	}
	var r rune
	for _, c := range s.in[s.pos : s.pos+4] {
		r <<= 4
		switch {
		case c-'0' <= 9:
			r |= rune(c - '0')
		case c|0x20-'a' <= 'f'-'a':
			r |= rune(c|0x20-'a') + 10
		default:
			return 0, refuse(RuleSyntax)
		}
	}
	s.pos += 4
	return r, nil
}
