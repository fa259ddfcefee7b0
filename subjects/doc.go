// Package subjects is the wire of toolbus: how subjects are spelled and read,
// what the payloads on them look like, and the small neutral types with which a
// service receives and publishes messages without knowing the bus.
//
// Every class of subject is declared once, its wildcard next to its builder and
// its parser; builder and parser are inverse, and both refuse a token outside
// the grammar (the contract, sections 1 and 2), so that no wildcard and no
// separator that somebody else chose ever reaches a subject.
//
// Every payload is JSON with "v":1 and nothing unknown in it. The decoders here
// are stricter than encoding/json: member names match exactly, a member that
// appears twice is refused, and so is anything after the value. Their errors are
// [*FieldError] and name a field and a rule, never a value: what a stranger
// sent does not travel back in an error.
//
// The package imports the standard library and the domain, nothing else.
package subjects
