package canonical

import "encoding/json"

// Parse reads a JSON document under the same rules as [Form] and gives its
// tree: map[string]any, []any, string (NFC), [json.Number] (canonical spelling),
// bool and nil. The error is an [*Error].
func Parse(raw []byte) (any, error) {
	p := parser{scanner{in: raw}}
	v, err := p.value()
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

type parser struct{ scanner }

func (p *parser) value() (any, *Error) {
	switch p.next() {
	case '{':
		return p.object()
	case '[':
		return p.array()
	case '"':
		text, err := p.text()
		return string(text), err
	case 't':
		return true, p.word("true")
	case 'f':
		return false, p.word("false")
	case 'n':
		return nil, p.word("null")
	}
	literal, err := p.number()
	if err != nil {
		return nil, err
	}
	var buffer [32]byte
	spelled, err := appendNumber(buffer[:0], literal)
	return json.Number(spelled), err
}

func (p *parser) array() (any, *Error) {
	if err := p.open(); err != nil {
		return nil, err
	}
	list := []any{}
	for i := 0; ; i++ {
		more, err := p.more(i == 0, ']')
		if err != nil || !more {
			return list, err
		}
		v, err := p.value()
		if err != nil {
			return nil, err.at(i)
		}
		list = append(list, v)
	}
}

func (p *parser) object() (any, *Error) {
	if err := p.open(); err != nil {
		return nil, err
	}
	fields := map[string]any{}
	for first := true; ; first = false {
		more, err := p.more(first, '}')
		if err != nil || !more {
			return fields, err
		}
		text, err := p.key()
		if err != nil {
			return nil, err
		}
		key := string(text)
		v, err := p.value()
		if err != nil {
			return nil, err.under(key)
		}
		if _, twice := fields[key]; twice {
			return nil, refuse(RuleDuplicate).under(key)
		}
		fields[key] = v
	}
}
