// Command toolbus runs the services of toolbus, alone or all in one process, and
// talks to them: toolbus --help.
package main

import "github.com/toolbus/toolbus/cmd/toolbus/cli"

// version is set when a release is built.
var version = "devel"

func main() { cli.Main(cli.Build{Version: version}) }
