package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/toolbus/toolbus/internal/ui"
)

// demoCommand shows the whole thing, from nothing to nothing.
type demoCommand struct {
	Data        string `help:"Data directory, kept afterwards; a temporary one unless given." type:"path" placeholder:"DIR"`
	Gatekeepers int    `help:"Gatekeepers to run, each a process." default:"1" placeholder:"N"`
	Executors   int    `help:"Executors to run, each a process." default:"1" placeholder:"N"`
	JSON        bool   `name:"json" help:"Print what became of the calls as JSON; the story goes to standard error."`
}

// demoTimeout bounds the story, without the start of the engines.
const demoTimeout = 2 * time.Minute

// Run starts everything, tells the story and leaves nothing behind.
func (c *demoCommand) Run(ctx context.Context, p *process) (err error) {
	if c.Gatekeepers < 1 || c.Executors < 1 || c.Gatekeepers+c.Executors > 12 {
		return wrongUse("the demo runs at least 1 gatekeeper and 1 executor, and at most 12 of both")
	}
	start := time.Now()
	dir, remove, err := c.dir(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	lock, err := own(dir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	v := &demoView{p: p.out, command: p.command, start: start, seen: map[string]bool{}, news: make(chan struct{}, 1)}
	if c.JSON {
		v.p = p.err
	}
	v.title(c.Gatekeepers, c.Executors)
	calls, err := c.play(ctx, p, dir, v)
	if err != nil {
		return err
	}
	v.farewell(time.Since(start), c.Data)
	return checkDemo(calls)
}

// play starts the system, tells the story in it and stops it.
func (c *demoCommand) play(ctx context.Context, p *process, dir string, v *demoView) (calls []demoCall, err error) {
	sys := &demoSystem{dir: dir, process: p}
	defer func() { err = errors.Join(err, sys.stop(context.WithoutCancel(ctx))) }()
	if err := sys.start(ctx, c.Gatekeepers, c.Executors); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	calls, err = c.tell(ctx, p, sys, v)
	switch {
	case errors.Is(err, context.Canceled):
		return nil, err
	case err != nil:
		return nil, advise(err, "look into the logs: run it with --data DIR, where they are kept")
	}
	v.end(calls)
	return calls, nil
}

// dir gives the data directory and what removes it again.
func (c *demoCommand) dir(p *process) (dir string, remove func() error, err error) {
	if c.Data != "" {
		dir, err = p.dataDir(c.Data)
		return dir, func() error { return nil }, err
	}
	if dir, err = os.MkdirTemp("", "toolbus-demo-"); err != nil {
		return "", nil, fmt.Errorf("data directory: %w", err)
	}
	remove = func() error {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		return nil
	}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the account that runs PostgreSQL passes through
		return "", nil, errors.Join(fmt.Errorf("data directory: %w", err), remove())
	}
	return dir, remove, nil
}

func (c *demoCommand) tell(ctx context.Context, p *process, sys *demoSystem, v *demoView) ([]demoCall, error) {
	s := &demoStory{sys: sys, view: v}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.tell(ctx); err != nil {
		return nil, err
	}
	calls, err := s.result(ctx)
	if err == nil && c.JSON {
		err = p.json(calls)
	}
	return calls, err
}

// checkDemo says whether the story went as it should: each status was reached,
// and no effect happened twice.
func checkDemo(calls []demoCall) error {
	reached := map[string]bool{}
	for _, call := range calls {
		reached[call.Status] = true
		if call.Effects > 1 {
			return fmt.Errorf("the effect of %s happened %d times", call.Call, call.Effects)
		}
	}
	for _, status := range []string{"succeeded", "failed", "denied", "unavailable", "uncertain"} {
		if !reached[status] {
			return fmt.Errorf("no call ended as %s", status)
		}
	}
	return nil
}

// demoCall is what became of one call.
type demoCall struct {
	Call         string `json:"call"`
	Tool         string `json:"tool"`
	Status       string `json:"status"`
	Reason       string `json:"reason_code"`
	Attempts     int    `json:"attempts"`
	Effects      int    `json:"effects"`
	Why          string `json:"why"`
	InvocationID string `json:"invocation_id"`

	style ui.Style
}
