package subjects

import "github.com/toolbus/toolbus/tool"

// The streams (the contract, section 2).
const (
	StreamPropose = "TOOLBUS_PROPOSE"
	StreamExecute = "TOOLBUS_EXECUTE"
	StreamCommand = "TOOLBUS_COMMAND"
	StreamOutcome = "TOOLBUS_OUTCOME"
	StreamEvent   = "TOOLBUS_EVENT"
)

// The durables of the gatekeeper, one on each of its work queues.
const (
	DurableProposals = "gatekeeper-proposals"
	DurableCommands  = "gatekeeper-commands"
)

// DurableExecutor names the executor's durable on [StreamExecute] for one target.
func DurableExecutor(target tool.Target) string { return "executor-" + string(target) }
