// Package gatekeeper admits what runtimes propose: it consumes proposals and
// commands and answers the gatekeeper's request verbs.
//
// It owns a call from the PROPOSE work queue up to the AUTHORIZED row (steps 1
// to 8), the waiting for approvals, and sessions with their pins. A proposal is
// acknowledged after its admission committed, or after its refusal is stored in
// the outcome stream; a gatekeeper that dies in between leaves a message that
// another one gets, and finds its own rows.
//
// Any number of gatekeepers may run. What they keep in memory — sessions, pins,
// compiled schemas and policies — never changes once written.
package gatekeeper
