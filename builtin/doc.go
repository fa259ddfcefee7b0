// Package builtin holds the tools that ship with toolbus, a file per domain: system,
// math, workspace, artifact, web, sandbox and demo.
//
// A tool here reaches the world only through the [tool.Execution] it is given and
// through what [Options] hands it: it knows no registry, no policy, no store and no
// other tool. Conventions that all of them share:
//
//   - Arguments arrive validated, canonical and with their defaults filled in. They
//     are decoded strictly all the same, and bounds are enforced here once more where
//     exceeding one would cost something.
//   - What the world did wrong is a [tool.Failure]. Its detail never holds a word of a
//     foreign text; foreign text is in ExternalText or in the content.
//   - When its context ends, a tool stops and returns an error that wraps the context's;
//     what that means for the call is the executor's to say, which owns the deadline.
//   - A tool that writes calls MarkEffectSent once more right before its effect. The
//     executor has committed the watermark already; the call finds out whether the
//     call is still this worker's after whatever time was spent before.
//   - A source whose size is not known is read through [tool.Execution.Bounded]; past
//     the hard ceiling the result carries what was read and an output_too_large failure.
package builtin
