package canonical

import (
	"bytes"
	"slices"
)

// Form gives the canonical bytes of a JSON document, or an [*Error] that says
// which rule it breaks. Form(Form(x)) is Form(x). It equals [Encode] after
// [Parse] but builds no tree: an object's members are written as they come and
// put into order where they stand.
func Form(raw []byte) ([]byte, error) {
	f := former{scanner: scanner{in: raw}, out: make([]byte, 0, len(raw)+16), members: make([]member, 0, 16)}
	if err := f.value(); err != nil {
		return nil, err
	}
	if err := f.end(); err != nil {
		return nil, err
	}
	return f.out, nil
}

type former struct {
	scanner
	out []byte
	// members is a stack: each open object owns the part above its own base.
	members []member
	scratch []byte
}

// member is one key of an object and where out holds `"key":value`.
type member struct {
	key        []byte
	start, end int
}

func (f *former) value() *Error {
	switch f.next() {
	case '{':
		return f.object()
	case '[':
		return f.array()
	case '"':
		text, err := f.text()
		if err != nil {
			return err
		}
		f.out = appendQuoted(f.out, text)
		return nil
	case 't':
		return f.constant("true")
	case 'f':
		return f.constant("false")
	case 'n':
		return f.constant("null")
	}
	literal, err := f.number()
	if err != nil {
		return err
	}
	f.out, err = appendNumber(f.out, literal)
	return err
}

func (f *former) constant(word string) *Error {
	f.out = append(f.out, word...)
	return f.word(word)
}

func (f *former) array() *Error {
	if err := f.open(); err != nil {
		return err
	}
	f.out = append(f.out, '[')
	for i := 0; ; i++ {
		more, err := f.more(i == 0, ']')
		if err != nil {
			return err
		}
		if !more {
			f.out = append(f.out, ']')
			return nil
		}
		if i > 0 {
			f.out = append(f.out, ',')
		}
		if err := f.value(); err != nil {
			return err.at(i)
		}
	}
}

func (f *former) object() *Error {
	if err := f.open(); err != nil {
		return err
	}
	f.out = append(f.out, '{')
	base := len(f.members)
	for first := true; ; first = false {
		more, err := f.more(first, '}')
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := f.member(first); err != nil {
			return err
		}
	}
	if err := f.order(f.members[base:]); err != nil {
		return err
	}
	f.members = f.members[:base]
	f.out = append(f.out, '}')
	return nil
}

func (f *former) member(first bool) *Error {
	key, err := f.key()
	if err != nil {
		return err
	}
	if !first {
		f.out = append(f.out, ',')
	}
	start := len(f.out)
	f.out = append(appendQuoted(f.out, key), ':')
	if err := f.value(); err != nil {
		return err.under(string(key))
	}
	f.members = append(f.members, member{key, start, len(f.out)})
	return nil
}

// order brings the members, which lie at the end of out with one comma between
// them, into the order of their keys.
func (f *former) order(members []member) *Error {
	compare := func(a, b member) int { return bytes.Compare(a.key, b.key) }
	sorted := slices.IsSortedFunc(members, compare)
	if !sorted {
		slices.SortFunc(members, compare)
	}
	for i := 1; i < len(members); i++ {
		if bytes.Equal(members[i-1].key, members[i].key) {
			return refuse(RuleDuplicate).under(string(members[i].key))
		}
	}
	if sorted {
		return nil
	}
	f.scratch = slices.Grow(f.scratch[:0], len(f.out))
	begin := len(f.out)
	for i, m := range members {
		if i > 0 {
			f.scratch = append(f.scratch, ',')
		}
		f.scratch = append(f.scratch, f.out[m.start:m.end]...)
		begin = min(begin, m.start)
	}
	copy(f.out[begin:], f.scratch)
	return nil
}
