// Package config reads the configuration of toolbus: one YAML file, and an
// environment variable for every key.
//
// Reading is strict. An unknown key is an error that names its line, a value out
// of range is an error that names its key and the rule, and all errors of a file
// are reported at once. A variable wins over the file, the file over the
// default.
//
// A secret is never in here: credentials are references (env:NAME, file:/path)
// that a broker resolves, and the addresses of the engines, which may carry a
// password, print without it.
//
// The doc comments of the structs are the reference manual: docs/configuration.md
// is made of them, and a test keeps the two equal.
package config
