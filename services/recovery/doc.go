// Package recovery resolves what nobody is working on any more, by looking at
// rows: it never runs a tool.
//
// Its sweeps, each a runOnce that any number of instances may run at the same
// time, are: running calls whose lease has ended (by the recovery table, from
// the class on the row), calls that could be claimed and were not, calls whose
// deadline, approval or run is over, and messages that were committed and not
// published (the relay). What a sweep reads is a snapshot; every write states
// again what it was decided on and does nothing when that changed.
package recovery
