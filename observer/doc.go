// Package observer makes the spans of tool calls (specification, "Spans and
// metrics"):
//
//	tool.execute           one claim of a call, by the executor
//	|-- tool.validate      steps 4 and 5, by the gatekeeper
//	|-- policy.evaluate    step 6, by the gatekeeper
//	`-- …                  what the tool does
//
// The children of admission end before their parent begins, in another process.
// So the ids of a call's first tool.execute are not drawn but follow from the
// invocation id, which both sides know; [NewIDs] must generate the ids of the
// provider for that. A call that was proposed without a trace has one of its own,
// named by its invocation id; otherwise the spans join the trace of the proposal.
//
// Spans say what a call is and how it went, never what it was given or gave
// back.
package observer
