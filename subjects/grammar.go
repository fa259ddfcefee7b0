package subjects

import (
	"strconv"
	"strings"

	"github.com/toolbus/toolbus/tool"
)

// BridgePrefix begins the call ids that only the programmatic bridge may use.
const BridgePrefix = "bridge:"

const (
	maxIdent   = 128
	maxComment = 4096
	maxInt32   = 1<<31 - 1
)

// Rules that several fields share.
const (
	identRule = "must be 1 to 128 of A-Z a-z 0-9 . _ : -"
	tokenRule = "must be 1 to 64 of A-Z a-z 0-9 _ -" //nolint:gosec // a rule, no credential
)

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// ValidCallID reports whether s is 1 to 128 of [A-Za-z0-9._:-] (the contract,
// section 1). Command and request ids have the same grammar.
func ValidCallID(s string) bool {
	if s == "" || len(s) > maxIdent {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isAlnum(c) && c != '.' && c != '_' && c != ':' && c != '-' {
			return false
		}
	}
	return true
}

// ValidEventName reports whether s is lower-case words joined by dots.
func ValidEventName(s string) bool {
	if len(s) > 96 {
		return false
	}
	for word := range strings.SplitSeq(s, ".") {
		if word == "" || word[0] < 'a' || word[0] > 'z' {
			return false
		}
		for i := range len(word) {
			c := word[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
				return false
			}
		}
	}
	return true
}

// validToolName accepts registry names, aliases and what a model may have made
// up in their alphabet; whether it names anything is for the pin to say.
func validToolName(s string) bool {
	if s == "" || len(s) > maxIdent {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isAlnum(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// OutcomeID is the message id of an outcome: outcome:<invocation>:<n>, with the
// n of the proposal that it answers.
func OutcomeID(invocation tool.ID, n int) string {
	return "outcome:" + invocation.String() + ":" + strconv.Itoa(n)
}

// PendingID is the message id of a pending notice: pending:<invocation>:<ref>.
func PendingID(invocation tool.ID, ref string) string {
	return "pending:" + invocation.String() + ":" + ref
}

// RefusalID is the message id of a refusal: refusal:<run>:<step>:<n>.
func RefusalID(run tool.ID, step, n int) string {
	return "refusal:" + run.String() + ":" + strconv.Itoa(step) + ":" + strconv.Itoa(n)
}

// EventID is the id of an event of a call, in its payload and as message id:
// <invocation>:<seq>.
func EventID(invocation tool.ID, seq int) string {
	return invocation.String() + ":" + strconv.Itoa(seq)
}
