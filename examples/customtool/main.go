// Command customtool is toolbus with one more tool: the whole command line, every
// builtin, and dice.roll beside them.
//
//	go run ./examples/customtool dev
//	go run ./examples/customtool call dice.roll '{"dice":3,"sides":20}'
//
// A build with tools of its own runs all services from this main: gatekeepers
// offer the tool, executors run it. Versions are part of what a call is, so
// raise [tool.Spec.Version] whenever the tool means something else.
package main

import (
	"github.com/toolbus/toolbus/cmd/toolbus/cli"
	"github.com/toolbus/toolbus/tool"
)

func build() cli.Build {
	return cli.Build{
		Version: "0.1.0",
		// The first segment of a name is its domain; a build declares its own.
		Domains: []string{"dice"},
		Tools:   []tool.Tool{newDice()},
	}
}

func main() { cli.Main(build()) }
