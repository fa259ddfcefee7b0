//go:build !linux

package sandbox

import "context"

// Workspace is where a confined command finds its working directory.
const Workspace = "/workspace"

func (r *Runner) confined(context.Context, string, Command) (Outcome, error) {
	return Outcome{}, ErrUnconfined
}

func (r *Runner) unconfined(context.Context, Command) (Outcome, error) {
	return Outcome{}, ErrUnconfined
}
