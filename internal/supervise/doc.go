// Package supervise runs the services of a process together and takes the
// process apart in order.
//
// A [Group] runs services side by side. It is ready when all of them are, and
// when one of them ends, for whatever reason, the others are told to stop: a
// process that has lost a part is replaced by its supervisor, not limped on with.
//
// A [Stack] holds what has to be released, each thing under its name. It
// releases in the reverse order of acquisition, gives each release a bounded
// time, goes on after a failure and joins the errors. A start that fails half
// way rolls back by the same stack.
package supervise
