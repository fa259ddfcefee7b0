// Package observe is what an operator looks at: metrics, health, traces and
// the process's own log.
//
// [Metrics] holds every metric the program has, with names and labels in one
// place. [Checks] remembers how its named checks last went and serves
// liveness and readiness; [NewProgress] makes a check of progress instead of one
// of connections. [StartTracing] sends spans to a collector, or makes none, and
// [NewLogger] writes lines that carry the ids of the trace they belong to.
//
// Nothing here is global: a process makes one of each and hands it on.
package observe
