package tool

import (
	"fmt"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is a value that cannot be printed: every formatter, encoder and
// logger gets "[redacted]". [Secret.Reveal] is the only way out; the linter
// confines its callers.
type Secret struct{ v string }

// NewSecret wraps v.
func NewSecret(v string) Secret { return Secret{v: v} }

// Reveal gives the value. Call it where a header, an environment or a request
// is built, and nowhere else.
func (s Secret) Reveal() string { return s.v }

// Empty reports whether there is no value.
func (s Secret) Empty() bool { return s.v == "" }

// String redacts.
func (Secret) String() string { return redacted }

// GoString redacts.
func (Secret) GoString() string { return redacted }

// Format redacts under every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue redacts.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON redacts.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText redacts.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// GobEncode redacts.
func (Secret) GobEncode() ([]byte, error) { return []byte(redacted), nil }
