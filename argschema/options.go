package argschema

import (
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Dialect is a JSON Schema draft, named by the URI of its meta-schema as a
// $schema keyword spells it, without a trailing number sign.
type Dialect string

// The dialects that can be compiled. An absent $schema means [Draft2020].
const (
	Draft2020 Dialect = "https://json-schema.org/draft/2020-12/schema"
	Draft2019 Dialect = "https://json-schema.org/draft/2019-09/schema"
	Draft7    Dialect = "http://json-schema.org/draft-07/schema"
	Draft6    Dialect = "http://json-schema.org/draft-06/schema"
)

// draft gives the library's draft, nil outside the closed set.
func (d Dialect) draft() *jsonschema.Draft {
	switch d {
	case Draft2020:
		return jsonschema.Draft2020
	case Draft2019:
		return jsonschema.Draft2019
	case Draft7:
		return jsonschema.Draft7
	case Draft6:
		return jsonschema.Draft6
	}
	return nil
}

// hasUnevaluated reports whether the dialect knows unevaluatedProperties.
func (d Dialect) hasUnevaluated() bool { return d == Draft2020 || d == Draft2019 }

// Options bounds what a schema may be. A limit of 0 is no limit.
type Options struct {
	// Dialects lists the dialects that may be declared.
	Dialects []Dialect
	// MaxBytes limits the length of the schema as compact JSON.
	MaxBytes int
	// MaxDepth limits the nesting of arrays and objects; the root is 1.
	MaxDepth int
	// MaxNodes limits the number of JSON values in the document.
	MaxNodes int
	// MaxProperties limits the members of one properties keyword.
	MaxProperties int
	// MaxEnum limits the members of one enum keyword.
	MaxEnum int
	// MaxPattern limits the length of one regular expression, in bytes.
	MaxPattern int
	// MaxProgram limits what the regular expressions of the schema unfold to,
	// together, in instructions.
	MaxProgram int
	// MaxCost limits how many schemas apply at one location of a document, with
	// references and applicators expanded.
	MaxCost int
	// Watchdog bounds one validation; 0 validates in the caller's goroutine,
	// which is for schemas that ship with the program.
	Watchdog time.Duration
}

// Builtin gives the options for schemas that ship with the program: draft
// 2020-12 only, and no watchdog.
func Builtin() Options {
	return Options{Dialects: []Dialect{Draft2020}, MaxCost: 2000}
}

// Remote gives the options for schemas from elsewhere: every dialect, the size
// and depth of the specification ("Discovery, and the schema that arrives from
// outside"), and a watchdog of 250 ms.
func Remote() Options {
	return Options{
		Dialects:      []Dialect{Draft2020, Draft2019, Draft7, Draft6},
		MaxBytes:      32768,
		MaxDepth:      16,
		MaxNodes:      5000,
		MaxProperties: 512,
		MaxEnum:       1000,
		MaxPattern:    1024,
		MaxProgram:    20_000,
		MaxCost:       2000,
		Watchdog:      250 * time.Millisecond,
	}
}
