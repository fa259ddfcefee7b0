package observe

import (
	"sync"
	"unicode/utf8"
)

// UnknownName is the label of a name that is in no pin, and of every name
// beyond those a label may have.
const UnknownName = "unknown"

// maximumLabelBytes bounds one label value.
const maximumLabelBytes = 128

// labelSet bounds the values of a label: names come from servers and tenants,
// and every value is a series for as long as the process lives.
type labelSet struct {
	mu      sync.Mutex
	seen    map[string]struct{}
	maximum int
}

func newLabelSet(maximum int) *labelSet {
	return &labelSet{seen: map[string]struct{}{}, maximum: maximum}
}

// admit gives the value itself, or [UnknownName] when it may not be a label.
func (l *labelSet) admit(value string) string {
	if value == "" || len(value) > maximumLabelBytes || !utf8.ValidString(value) {
		return UnknownName
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.seen[value]; ok {
		return value
	}
	if len(l.seen) >= l.maximum {
		return UnknownName
	}
	l.seen[value] = struct{}{}
	return value
}
