// Package outcome makes what a model reads of a call: the reason table with its
// fixed messages ([Table]), the six-field object of every outcome that is not a
// success ([Object]), the admission of tool output ([Measure], [Plan.Render])
// and the outcome message of the bus ([Message]). It is steps 11, 12 and 14 of
// the pipeline (specification, "Output: limits, truncation, and artifacts" and
// "What the model reads").
//
// Two rules stand above the rest. Large output is excerpted and kept whole in
// an artifact, never summarized (Decision 10). External text is data: it
// appears in content, inside an envelope whose nonce its author cannot guess,
// and never in a message (Decision 11).
//
// Everything here is a pure function of its arguments; the only randomness is
// the nonce, which comes in as a function. All types are safe for concurrent
// use once built.
package outcome
