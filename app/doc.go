// Package app is the composition root: the program without the process. It
// alone knows the services and the adapters; it plugs the store and the bus into
// the small ports that the services declare, and runs any of them, alone or all
// together on embedded engines.
//
// Signals, environment and exit codes belong to cmd; everything here can be
// started and stopped by a test.
package app
