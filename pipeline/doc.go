// Package pipeline is the fourteen steps: one ordered definition ([Steps]) in
// two halves, [Admitter.Admit] (1–8) and [Executor.Execute] (9–14), each with
// exactly one call site. Builtins, sandboxed commands, devices and remote
// servers all pass through these two functions; none has a variant.
//
// The package decides and orders. It holds no connection: what it needs of the
// store, the bus and the tools comes through the small ports of its callers,
// and every decision that counts — the fold of an admission, a recovery
// verdict, an approval — is a pure function of facts that were read under the
// locks of the transaction that acts on them.
package pipeline
