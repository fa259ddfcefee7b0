package outcome

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/toolbus/toolbus/tool"
)

//go:embed reasons.json
var reasonFile []byte

// ErrTable says that the reason table is incomplete or malformed; it is wrapped
// with the code at fault. A process that sees it must not start.
var ErrTable = errors.New("reason table")

// Remediation says what has to change before an action is proposed again.
type Remediation string

// The remediations.
const (
	RemediationNone            Remediation = "none"
	RemediationModifyArguments Remediation = "modify_arguments"
)

// Reason is one row of the reason table. Message is fixed: it holds no rule, no
// pattern, no host, no name and nobody's data.
type Reason struct {
	// Code is the listed code, which may be a prefix of the code looked up.
	Code string `json:"code"`
	// Status is the outcome status that this reason explains.
	Status tool.OutcomeStatus `json:"status"`
	// Retryable says that proposing the action again is safe and may succeed,
	// after the remediation where there is one.
	Retryable   bool        `json:"retryable"`
	Remediation Remediation `json:"remediation"`
	Message     string      `json:"message"`
}

// maximumCodeLength bounds a reason code on the wire.
const maximumCodeLength = 128

var codeGrammar = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z0-9_]+)+$`)

// ValidCode reports whether code may stand on the wire: dotted lower-case
// segments, at most 128 characters.
func ValidCode(code string) bool {
	return len(code) <= maximumCodeLength && codeGrammar.MatchString(code)
}

// Table is the loaded reason table. It is immutable and safe for concurrent use.
type Table struct{ rows map[string]Reason }

// Load reads the embedded table and proves it complete: every code of this
// package is listed exactly once, every status and remediation is in its closed
// set, every message is a sentence in printable ASCII. It returns an error that
// wraps [ErrTable] otherwise.
func Load() (*Table, error) { return parseTable(reasonFile) }

func parseTable(file []byte) (*Table, error) {
	dec := json.NewDecoder(bytes.NewReader(file))
	dec.DisallowUnknownFields()
	var rows []Reason
	if err := dec.Decode(&rows); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTable, err)
	}
	t := &Table{rows: make(map[string]Reason, len(rows))}
	for _, r := range rows {
		if _, twice := t.rows[r.Code]; twice {
			return nil, fmt.Errorf("%w: %q is listed twice", ErrTable, r.Code)
		}
		if fault := r.fault(); fault != "" {
			return nil, fmt.Errorf("%w: %q: %s", ErrTable, r.Code, fault)
		}
		t.rows[r.Code] = r
	}
	for _, code := range requiredCodes() {
		if _, ok := t.rows[code]; !ok {
			return nil, fmt.Errorf("%w: %q is missing", ErrTable, code)
		}
	}
	return t, nil
}

// fault says what is wrong with a row, empty for nothing.
func (r Reason) fault() string {
	notPrintable := func(c rune) bool { return c < ' ' || c > '~' }
	switch {
	case !ValidCode(r.Code):
		return "the code breaks its grammar"
	case !r.Status.Valid() || r.Status == tool.OutcomeSucceeded:
		return "the status is not one of the four"
	case r.Remediation != RemediationNone && r.Remediation != RemediationModifyArguments:
		return "the remediation is not in the closed set"
	case !strings.HasSuffix(r.Message, "."):
		return "the message does not end with a period"
	case strings.ContainsFunc(r.Message, notPrintable):
		return "the message is not printable ASCII"
	}
	return ""
}

// Codes lists the codes of the table in order.
func (t *Table) Codes() []string { return slices.Sorted(maps.Keys(t.rows)) }

// Lookup gives the row of the longest listed prefix of code, cut at dots; for a
// code without one it gives the row of tool.internal.
func (t *Table) Lookup(code string) Reason {
	if r, ok := t.find(code); ok {
		return r
	}
	return t.rows[CodeInternal]
}

func (t *Table) find(code string) (Reason, bool) {
	for code != "" {
		if r, ok := t.rows[code]; ok {
			return r, true
		}
		code = code[:max(strings.LastIndexByte(code, '.'), 0)]
	}
	return Reason{}, false
}

// Object makes the six-field object of a call that did not succeed. action is
// the registry name of the tool. The code stands on the wire as given, its text
// comes from the table.
//
// Status and message never contradict each other: a code that breaks the
// grammar, or whose row explains another status, is replaced by the plain code
// of the status (an uncertain call is never told as a failure), and a
// well-formed code without a row keeps its spelling and gets the text of the
// plain code. [tool.OutcomeSucceeded] and words outside the set have no object;
// asking for one is a defect and gives tool.internal.
func (t *Table) Object(status tool.OutcomeStatus, action, code string) Object {
	if !status.Valid() || status == tool.OutcomeSucceeded {
		status, code = tool.OutcomeFailed, CodeInternal
	}
	plain := plainCode(status)
	reason, listed := t.find(code)
	if !ValidCode(code) || (listed && reason.Status != status) {
		code, listed = plain, false
	}
	if !listed {
		reason = t.rows[plain]
	}
	return Object{
		Status: status, Action: action, ReasonCode: code,
		Message: reason.Message, Retryable: reason.Retryable, Remediation: reason.Remediation,
	}
}

// plainCode gives the code that says no more than the status.
func plainCode(status tool.OutcomeStatus) string {
	switch status {
	case tool.OutcomeDenied:
		return CodeRuleDenied
	case tool.OutcomeUnavailable:
		return CodeServerUnreachable
	case tool.OutcomeUncertain:
		return CodeOutcomeUnknown
	case tool.OutcomeFailed, tool.OutcomeSucceeded:
		return CodeInternal
	}
	return CodeInternal
}

// FailureCode gives the reason code of a failure that a tool reported: the
// tool's own code where it is tool.{kind} or tool.{kind}.{detail} of its own
// kind, else the plain code of the kind. A tool cannot claim what only the
// pipeline concludes (Decision 1). A kind outside the closed set is internal.
func (t *Table) FailureCode(f tool.Failure) string {
	if !f.Kind.Valid() {
		return CodeInternal
	}
	// The longest row must be the kind's own: a longer listed code, such as
	// tool.not_found.not_offered, belongs to the pipeline.
	plain := f.Kind.Code()
	if row, listed := t.find(f.ReasonCode); !listed || row.Code != plain || !ValidCode(f.ReasonCode) {
		return plain
	}
	return f.ReasonCode
}

// UnavailableFamily reports whether code says that a call has no route right
// now: server unreachable or unauthorized, tool withdrawn, device offline, each
// with or without a detail (specification, "Resolution").
func UnavailableFamily(code string) bool {
	family := []string{CodeServerUnreachable, CodeServerUnauthorized, CodeWithdrawn, CodeDeviceOffline}
	return slices.ContainsFunc(family, func(member string) bool {
		return code == member || strings.HasPrefix(code, member+".")
	})
}
