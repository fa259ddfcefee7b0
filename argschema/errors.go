package argschema

import (
	"errors"
	"strings"

	"github.com/toolbus/toolbus/canonical"
)

// Reason says why a schema is refused. The set is closed; a reason is fit for
// an event and a metric label.
type Reason string

// The reasons.
const (
	// ReasonInvalid: no strict JSON, or not valid against its dialect.
	ReasonInvalid Reason = "invalid"
	// ReasonTooLarge: bytes, values, properties, enum or pattern over the limit.
	ReasonTooLarge Reason = "too_large"
	ReasonTooDeep  Reason = "too_deep"
	// ReasonDialect: $schema names a dialect outside [Options.Dialects].
	ReasonDialect Reason = "dialect"
	// ReasonNotObject: the root does not declare type "object".
	ReasonNotObject Reason = "not_object"
	// ReasonRemoteRef: a reference leaves the document.
	ReasonRemoteRef Reason = "remote_ref"
	// ReasonEmbedded: a subschema changes base URI, dialect or vocabulary.
	ReasonEmbedded Reason = "embedded_resource"
	// ReasonPattern: a regular expression outside RE2.
	ReasonPattern Reason = "unsupported_pattern"
	// ReasonBadDefault: a default that would be filled breaks its own subschema.
	ReasonBadDefault Reason = "bad_default"
	// ReasonTooCostly: references, applicators or the repetitions of regular
	// expressions multiply beyond the limit.
	ReasonTooCostly Reason = "too_costly"
)

// Reasons lists every reason.
func Reasons() []Reason {
	return []Reason{
		ReasonInvalid, ReasonTooLarge, ReasonTooDeep, ReasonDialect, ReasonNotObject,
		ReasonRemoteRef, ReasonEmbedded, ReasonPattern, ReasonBadDefault, ReasonTooCostly,
	}
}

// SchemaError says that a schema is refused. It holds none of the schema's text
// but the keys of Path.
type SchemaError struct {
	Reason Reason
	// Path is a JSON Pointer into the schema, tokens as [canonical.AppendToken]
	// writes them; "" for the whole or where the place is not known.
	Path string
}

// Error gives reason and path.
func (e *SchemaError) Error() string {
	if e.Path == "" {
		return "schema refused: " + string(e.Reason)
	}
	return "schema refused: " + string(e.Reason) + " at " + e.Path
}

// ArgumentError is the violation by which a document was refused: for
// arguments, the text that the caller may read.
type ArgumentError struct {
	// Path is a JSON Pointer to the offending value, tokens as
	// [canonical.AppendToken] writes them; "" for the document.
	Path string
	// Rule is the keyword that was broken and a fixed phrase. It may hold what
	// the schema says (a type, a bound, the name of a missing property), never a
	// value of the document.
	Rule string
}

// Error gives path and rule.
func (e *ArgumentError) Error() string {
	if e.Path == "" {
		return e.Rule
	}
	return e.Path + ": " + e.Rule
}

// ErrQuarantined says that an earlier validation by this schema did not end in
// time, or broke the schema library; the schema validates nothing any more.
var ErrQuarantined = errors.New("schema is quarantined")

// fromCanonical turns the refusal of a document into an argument error.
func fromCanonical(err error) error {
	var refused *canonical.Error
	if errors.As(err, &refused) {
		return &ArgumentError{Path: refused.Path, Rule: "json: " + refused.Rule}
	}
	return err
}

// pointer joins tokens for a reader.
func pointer(tokens []string) string {
	path := ""
	for _, token := range tokens {
		path = canonical.AppendToken(path, token)
	}
	return path
}

// label makes a word from a schema fit for a rule, as a pointer's token is.
func label(word string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(canonical.AppendToken("", word)[1:])
}
