// Package telemetry shows what happens: it reads the event stream and the
// tables, serves health, metrics and the events over HTTP, and publishes
// nothing.
//
// One reader per process follows the stream and keeps its last events in
// memory, from where every client is served at its own pace (R2.19b). The stream
// delivers at least once and in the order of publishing, which is not the order
// of a call's events: a message may come by the relay after its successor, or
// twice. So the reader puts the events of each call in order by their number:
// what is missing is read from the table and sent in its place, late copies are
// dropped (hazard 23). A client that resumes further back than the memory
// safely reaches reads the stream itself until it gets there.
//
// A client is never sent an event less: when it cannot keep up it is
// disconnected, and resumes with Last-Event-ID, which is the stream's incarnation
// and the position in it. After a reconnect an event may come again with the
// same event_id. A position that means nothing any more is answered by the event
// "reset": what happened in between has to be read from the tables.
//
// The metrics of tools are counted here, from the events, so that one process
// has the whole picture; each instance counts everything, so they are not to be
// added up over instances.
package telemetry
