package canonical

import (
	"encoding/json"
	"slices"
	"strings"
)

// Encode gives the canonical bytes of a tree of the types that [Parse] returns.
// Strings and numbers need not be canonical yet: they are checked and rewritten
// as in a document. v is not changed. The error is an [*Error].
func Encode(v any) ([]byte, error) {
	e := encoder{out: make([]byte, 0, 256)}
	if err := e.value(v); err != nil {
		return nil, err
	}
	return e.out, nil
}

type encoder struct {
	out   []byte
	depth int
	// fields is a stack: each open object owns the part above its own base.
	fields []field
}

type field struct {
	key   string
	value any
}

func (e *encoder) value(v any) *Error {
	switch v := v.(type) {
	case nil:
		e.out = append(e.out, "null"...)
	case bool:
		if v {
			e.out = append(e.out, "true"...)
		} else {
			e.out = append(e.out, "false"...)
		}
	case string:
		text, err := checkedString(v)
		if err != nil {
			return err
		}
		e.out = appendQuoted(e.out, text)
	case json.Number:
		return e.number(v)
	case []any:
		return e.array(v)
	case map[string]any:
		return e.object(v)
	default:
		return refuse(RuleValue)
	}
	return nil
}

func (e *encoder) number(n json.Number) *Error {
	s := scanner{in: []byte(n)}
	literal, err := s.number()
	if err != nil {
		return err
	}
	if s.pos != len(s.in) {
		return refuse(RuleSyntax)
	}
	e.out, err = appendNumber(e.out, literal)
	return err
}

func (e *encoder) open() *Error {
	if e.depth == MaximumDepth {
		return refuse(RuleDepth)
	}
	e.depth++
	return nil
}

func (e *encoder) array(list []any) *Error {
	if err := e.open(); err != nil {
		return err
	}
	e.out = append(e.out, '[')
	for i, v := range list {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.value(v); err != nil {
			return err.at(i)
		}
	}
	e.out = append(e.out, ']')
	e.depth--
	return nil
}

func (e *encoder) object(object map[string]any) *Error {
	if err := e.open(); err != nil {
		return err
	}
	base := len(e.fields)
	for key, v := range object {
		normal, err := checkedString(key)
		if err != nil {
			return err
		}
		e.fields = append(e.fields, field{normal, v})
	}
	top := len(e.fields)
	slices.SortFunc(e.fields[base:], func(a, b field) int { return strings.Compare(a.key, b.key) })
	e.out = append(e.out, '{')
	for i := base; i < top; i++ {
		f := e.fields[i]
		if i > base {
			if f.key == e.fields[i-1].key {
				return refuse(RuleDuplicate).under(f.key)
			}
			e.out = append(e.out, ',')
		}
		e.out = append(appendQuoted(e.out, f.key), ':')
		if err := e.value(f.value); err != nil {
			return err.under(f.key)
		}
	}
	e.fields = e.fields[:base]
	e.out = append(e.out, '}')
	e.depth--
	return nil
}
