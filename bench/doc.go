// Command bench measures toolbus: throughput at saturation, latency at one call
// in flight, what a call costs, and the same numbers of what it is compared with.
//
// A machine drifts while it is measured, so nothing is measured once and nothing
// is compared across runs: every repetition measures every cell, one after the
// other, a ratio is taken within a repetition, and what is reported is the median
// of the repetitions. PostgreSQL runs with fsync; it, the NATS server, the services
// and the load generator share the machine.
//
//	go run ./bench                     the whole table, into bench/out/latest.json
//	go run ./bench -quick              one short repetition, to see that it works
//	go run ./bench -only 'write|raw4'  some cells
//	go run ./bench -million            with a million finished calls in the table (slow)
//	go run ./bench -cpuprofile cpu.out -only write/1000
package main
