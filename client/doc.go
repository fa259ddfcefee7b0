// Package client is how a runtime, or an operator, speaks to toolbus.
//
// # A runtime
//
// [Dial] connects on behalf of one tenant, and [Client.OpenSession] pins the
// tools that an agent may use:
//
//	c, err := client.Dial(ctx, client.Options{URL: url, CredentialsFile: file, Tenant: "acme", Actor: "runtime-1"})
//	...
//	defer c.Close()
//	s, err := c.OpenSession(ctx, client.SessionOptions{
//		Principal: tool.Principal{ID: "ada", Interactive: true},
//		Scopes:    []string{"mail:read"},
//		Agent:     subjects.AgentProfile{ID: "assistant", Tools: []string{"workspace.*", "mcp.acme.*"}},
//	})
//
// [Session.Tools] is what the model is shown: name, alias for providers that
// allow no dots, description and schema. One call is one line:
//
//	outcome, err := s.Call(ctx, "workspace.read_text", map[string]any{"path": "notes.md"})
//
// An agent proposes whole steps, since order and parallelism are decided over
// all calls that the model asked for at once:
//
//	run := s.NewRun()
//	defer run.Close()
//	step, err := run.Propose(ctx, client.Step{Number: 0, OriginTrust: tool.User, Calls: calls})
//	...
//	outcomes, err := step.Wait(ctx)
//
// An outcome that is failed, denied, unavailable or uncertain is no error: it is
// what the model reads next. Errors are of three kinds. A [*RefusalError] says
// that calls became no invocation. A [*subjects.FieldError] or [ErrTooLarge] says
// that a message was wrong and was not sent. Everything else says that the client
// does not know: [ErrUnavailable], [ErrPermission], [ErrClosed] or the context's
// own error; the calls of a step go on meanwhile, and [OpenStep.Wait] may be
// called again.
//
// [OpenStep.RunError] and [OpenStep.SynthesisOnly] say whether a circuit breaker
// ended the run, or the tool calls in it.
//
// # What may be lost, and what is not
//
// A proposal is stored before [Run.Propose] returns, and the calls in it have
// exactly one outcome each. The outcomes travel by a subscription that may miss
// some, so while somebody waits for a step, the client asks what is recorded:
// after 1, 2, 5, then every 10 seconds, and after each reconnect. Outcomes that
// come twice are shown once. Whatever the client sends again, because nobody
// acknowledged it, is recognised and has no second effect.
//
// A runtime that starts anew takes a step up by proposing it again, in the same
// run, with the same step number and call ids and a raised [Step.N]:
//
//	run := c.AttachSession(sessionID).Run(runID)
//	step, err := run.Propose(ctx, client.Step{Number: 7, N: 1, Calls: calls})
//
// # An operator
//
// [Client.ApprovalsList] and [Client.UncertainList] show what waits for a person,
// [Client.Approve], [Client.Deny] and [Client.Review] answer, [Client.Revoke]
// takes scopes away, and [Client.Tail] follows events. Commands need
// [Options.Actor], which NATS permissions bind to the identity; each returns once
// it is settled. [Client.Artifact] reads an output that was too large for its
// outcome.
package client
