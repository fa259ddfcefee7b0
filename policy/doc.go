// Package policy decides whether a proposed call is allowed, needs an approval
// or is denied (contract section 5).
//
// A [Profile] is a YAML document: an operator's rules, then the matrix, each a
// condition in CEL and a decision; the first that matches wins. Everything that
// can be found wrong is found by [Parse], with the line: unknown keys, unknown
// variables, words outside a closed set, a condition that is no bool. What can
// only go wrong during an evaluation, a missing argument or a cost beyond the
// limit, denies the call: there is no path from a failure to an allowance.
//
// Decisions are pure functions of their input. A profile is immutable, its
// programs are compiled once, and all of it is safe for concurrent use.
package policy
