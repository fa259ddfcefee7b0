// Package tool is the domain of toolbus: what a tool is ([Spec], [Tool]), what
// a tool may return ([Result]), what it may reach ([Execution]) and the closed
// sets of words every other package speaks (trust, side effect, risk,
// idempotency, status, outcome).
//
// It is the leaf of the import graph: standard library only, and of that
// neither database/sql nor net/http nor os. A tool implementation imports this
// package and nothing else of toolbus, so that it cannot reach the registry,
// the policy, the store or another tool (specification, "ToolExecutionContext,
// and what a tool is allowed to reach").
package tool
