// Package gates holds what must be proved before toolbus ships: one test per
// gate, named TestGateNN_Name, with a subtest per case.
//
// A gate runs against real parts: a private PostgreSQL, an embedded NATS
// server, child processes that are this test binary executed again, HTTP
// servers that speak the wire protocol. It fails when its subject is absent; it
// never skips. `make gates` runs them and prints one line for each; a gate that
// ran no case counts as failed. docs/gates.md tells what each one shows.
package gates
