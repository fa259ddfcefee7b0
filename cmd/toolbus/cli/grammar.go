package cli

import (
	"time"

	"github.com/toolbus/toolbus/app"
)

const description = "A durable bus for the tool calls of AI agents. Start with `toolbus demo`, then `toolbus dev`."

// dialTimeout bounds how long a command waits for the bus.
const dialTimeout = 10 * time.Second

// grammar is the command line. Each command is a type with a Run method, in the
// file that is named after it.
type grammar struct {
	Dev  devCommand  `cmd:"" help:"Run every service in one process, with engines of its own."`
	Demo demoCommand `cmd:"" help:"Show what becomes of calls, a crash in the middle of one included."`

	Gatekeeper serviceCommand `cmd:"" group:"Services:" help:"Run the service that admits calls."`
	Executor   serviceCommand `cmd:"" group:"Services:" help:"Run the service that executes calls."`
	Recovery   serviceCommand `cmd:"" group:"Services:" help:"Run the service that finds what was left lying."`
	Telemetry  serviceCommand `cmd:"" group:"Services:" help:"Run the service that shows what happens, over HTTP."`
	Migrate    migrateCommand `cmd:"" group:"Services:" help:"Bring tables and streams up to this build."`

	Session     sessionCommands     `cmd:"" group:"Calls:" help:"Open a session."`
	Call        callCommand         `cmd:"" group:"Calls:" help:"Make one call and print its outcome."`
	Tail        tailCommand         `cmd:"" group:"Calls:" help:"Follow the events."`
	Approvals   approvalsCommands   `cmd:"" group:"Calls:" help:"List and decide approvals."`
	Uncertain   uncertainCommands   `cmd:"" group:"Calls:" help:"List and review calls whose outcome nobody knows."`
	Invocations invocationsCommands `cmd:"" group:"Calls:" help:"List calls and show one."`
	Device      deviceCommands      `cmd:"" group:"Calls:" help:"Attach and detach devices."`

	Doctor  doctorCommand  `cmd:"" help:"Say what is wrong with the installation, and how to mend it."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

func newGrammar() *grammar {
	return &grammar{
		Approvals:  approvalsCommands{Deny: approvalsDecideCommand{deny: true}},
		Gatekeeper: serviceCommand{service: app.Gatekeeper}, Executor: serviceCommand{service: app.Executor},
		Recovery: serviceCommand{service: app.Recovery}, Telemetry: serviceCommand{service: app.Telemetry},
	}
}
