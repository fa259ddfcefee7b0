package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolbus/toolbus/internal/sandbox"
	"github.com/toolbus/toolbus/tool"
)

type commandArgs struct {
	Command        string `json:"command"`
	Stdin          string `json:"stdin"`
	TimeoutSeconds int    `json:"timeout_seconds"`
}

type commandResult struct {
	ExitCode        int     `json:"exit_code"`
	TimedOut        bool    `json:"timed_out"`
	DurationSeconds float64 `json:"duration_seconds"`
}

// sandboxRunCommand runs a shell command in the workspace. A command that ends with a
// code other than zero has run: its code is a result, not a failure of the tool.
//
// Its risk is medium: what it can do is confined to the workspace by construction, so
// the ordinary origin of a run may use it (row sandboxed_code of the shipped matrix).
func sandboxRunCommand(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name: "sandbox.run_command",
		Description: "Runs a shell command (sh -c) with the run's workspace as working directory, isolated: no network, nothing of the host but its " +
			"system programs, limits on time, memory and processes. Every process it starts ends with it, so do not start services. " +
			"Returns standard output, standard error and the exit code. To read, write or search text files prefer the workspace tools.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"command": {"type": "string", "minLength": 1, "maxLength": 65536, "description": "A command line for sh."},
				"stdin": {"type": "string", "default": "", "description": "Text for standard input."},
				"timeout_seconds": {"type": "integer", "default": 60, "minimum": 1, "maximum": 600, "description": "Seconds after which the command and everything it started is killed."}
			},
			"required": ["command"]
		}`),
		OutputSchema: schema(`{
			"type": "object",
			"properties": {
				"exit_code": {"type": "integer", "description": "128 and the signal number for a killed command."},
				"timed_out": {"type": "boolean"},
				"duration_seconds": {"type": "number"}
			},
			"required": ["exit_code", "timed_out", "duration_seconds"]
		}`),
		SideEffect: tool.CodeExecution, Idempotency: tool.NonIdempotent, Risk: tool.RiskMedium,
		Source: tool.SandboxSrc, TargetKind: tool.SandboxTarget, OutputTrust: tool.ExternalUntrusted,
		TimeoutSeconds: 630, MaximumOutputBytes: 256 << 10,
	})
	c := commands{runner: sandbox.New(o.Sandbox)}
	return &preparing[commandArgs]{
		simple:  simple[commandArgs]{spec: spec, defaults: commandArgs{TimeoutSeconds: 60}, run: c.run},
		prepare: c.prepare,
	}
}

// commands runs commands.
type commands struct{ runner *sandbox.Runner }

// prepare finds out whether commands can run here at all.
func (c commands) prepare(ctx context.Context, _ commandArgs, _ *tool.Execution) error {
	err := c.runner.Confinement(ctx)
	if errors.Is(err, sandbox.ErrUnconfined) {
		return &tool.Unavailable{Code: "tool.server_unreachable.sandbox", Detail: err.Error()}
	}
	return err
}

func (c commands) run(ctx context.Context, a commandArgs, exec *tool.Execution) (tool.Result, error) {
	if exec.Workspace == nil {
		return tool.Result{}, errNoWorkspace
	}
	if strings.Contains(a.Command, "\x00") {
		return fail(tool.FailInvalidArguments, "command", "a command cannot hold a NUL character"), nil
	}
	if err := boundary(ctx, exec); err != nil {
		return tool.Result{}, err
	}
	limit := time.Duration(min(max(a.TimeoutSeconds, 1), 600)) * time.Second
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := c.runner.Run(bounded, sandbox.Command{
		Args: []string{"/bin/sh", "-c", a.Command}, Dir: exec.Workspace.Name(),
		Stdin: []byte(a.Stdin), OutputBytes: exec.HardCeiling(),
	})
	timedOut := err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
	switch {
	case err != nil && !timedOut:
		return tool.Result{}, err
	case out.Exceeded:
		return tooLarge(tool.Text(transcript(out, "killed: too much output"))), nil
	}
	end := fmt.Sprintf("exit code %d", out.ExitCode)
	if timedOut {
		end = "killed: " + limit.String() + " passed"
	}
	result, err := succeed(transcript(out, end), commandResult{
		ExitCode: out.ExitCode, TimedOut: timedOut, DurationSeconds: out.Duration.Round(time.Millisecond).Seconds(),
	})
	if timedOut {
		result.OK = false
		result.Failure = &tool.Failure{Kind: tool.FailTimeout, ReasonCode: "tool.timeout.command", Detail: "the command's own time limit passed"}
	}
	result.Metrics = map[string]int64{"exit_code": int64(out.ExitCode), "duration_milliseconds": out.Duration.Milliseconds()}
	return result, err
}

// transcript shows both streams. How it ended comes last: when a long result is cut in
// the middle, its end survives.
func transcript(out sandbox.Outcome, end string) string {
	var b strings.Builder
	section := func(head string, content []byte) {
		if len(content) == 0 {
			return
		}
		text := strings.ToValidUTF8(strings.ReplaceAll(string(content), "\x00", "�"), "�")
		b.WriteString(head)
		b.WriteString(text)
		if !strings.HasSuffix(text, "\n") {
			b.WriteByte('\n')
		}
	}
	section("", out.Stdout)
	section("[standard error]\n", out.Stderr)
	b.WriteString("[" + end + "]")
	return b.String()
}
