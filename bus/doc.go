// Package bus is the NATS adapter of toolbus: it connects, reconciles the
// declared streams, publishes with acknowledgement, consumes with back-pressure,
// answers requests, and can run the server itself.
//
// What a service sees of it are the neutral types of package subjects: a handler
// gets a Delivery and returns a Verdict, a committed transition becomes a list of
// Publications. Only this package touches a message.
//
// Three habits of the plain client are avoided here, because each has lost or
// doubled work: it buffers publishes during an outage and sends them after it
// has reported a failure (the buffer is off); it fetches more messages than
// there are hands, whose acknowledgement clocks then run out in a queue (a
// consumer here asks for as many as it has free slots); and it negatively
// acknowledges without delay, which burns deliveries in milliseconds.
package bus
