// Package cli is the command line of toolbus, for its own main and for those of
// custom builds that add tools: flags, environment, signals and exit codes, and
// how things look to people. What happens is in app and client.
//
// [Main] belongs to a process and reads its signals; everything else works on
// what [Run] is given, so that a test runs a command as a function.
package cli
