package argschema

import (
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maximumWork is how many times a schema may be applied to a value in one
// validation whose schema multiplies: some hundred milliseconds at most.
const maximumWork = 250_000

// meter counts, without validating, how often schemas would be applied to the
// values of a document if every applicator came to all its branches. Validation
// itself repeats shared work, exponentially where a recursive schema has two
// references to itself at each level; the count remembers and does not.
type meter struct {
	places map[place]int
	counts map[application]int
}

// place names a value by its parent's number and its token.
type place struct {
	parent int
	token  string
}

type application struct {
	schema *jsonschema.Schema
	at     int
}

// affordable reports whether validating v by s stays within maximumWork.
func affordable(s *jsonschema.Schema, v any) bool {
	m := meter{places: map[place]int{}, counts: map[application]int{}}
	return m.count(s, v, 0) <= maximumWork
}

func (m *meter) count(s *jsonschema.Schema, v any, at int) int {
	a := application{s, at}
	if known, ok := m.counts[a]; ok {
		return known
	}
	if len(m.counts) > maximumWork {
		return maximumWork + 1
	}
	m.counts[a] = 1
	total := 1
	add := func(n int) { total = min(total+n, maximumWork+1) }
	for child := range inPlace(s) {
		add(m.count(child, v, at))
	}
	switch v := v.(type) {
	case map[string]any:
		others := memberSchemas(s)
		for name, member := range v {
			add(m.member(s, others, name, member, m.number(at, name)))
		}
	case []any:
		for i, item := range v {
			number := m.number(at, strconv.Itoa(i))
			for _, child := range itemSchemas(s) {
				if child != nil {
					add(m.count(child, item, number))
				}
			}
		}
	}
	m.counts[a] = total
	return total
}

// member counts for one member of an object. The schemas that are not chosen by
// name count for every member: too much, never too little.
func (m *meter) member(s *jsonschema.Schema, others []*jsonschema.Schema, name string, v any, at int) int {
	total := 0
	if child, ok := s.Properties[name]; ok {
		total += m.count(child, v, at)
	}
	for pattern, child := range s.PatternProperties {
		if pattern.MatchString(name) {
			total += m.count(child, v, at)
		}
	}
	for _, child := range others {
		if child != nil {
			total += m.count(child, v, at)
		}
	}
	return total
}

func (m *meter) number(parent int, token string) int {
	p := place{parent, token}
	number, ok := m.places[p]
	if !ok {
		number = len(m.places) + 1
		m.places[p] = number
	}
	return number
}
