package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// peers is the program that measures other systems; it has a module of its own.
type peers struct{ program string }

func buildPeers(ctx context.Context, dir string) (*peers, error) {
	p := &peers{program: filepath.Join(dir, "peers")}
	out, err := exec.CommandContext(ctx, "go", "build", "-C", "bench/peers", "-o", p.program, ".").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("peers cannot be built: %w: %.500s", err, out)
	}
	return p, nil
}

func peerCell(peer string) func(context.Context, *bench, string) error {
	return func(ctx context.Context, b *bench, name string) error {
		if b.peers == nil {
			return nil
		}
		p, err := b.engines.place(ctx, "")
		if err != nil {
			return err
		}
		defer func() { _ = p.close(context.WithoutCancel(ctx)) }()
		out, err := exec.CommandContext(ctx, b.peers.program, //nolint:gosec // built above
			"-url", b.engines.pg.URL(p.database), "-seconds", strconv.FormatFloat(b.o.window.Seconds(), 'f', -1, 64), peer).Output()
		if err != nil {
			return fmt.Errorf("peer: %w", err)
		}
		var result struct {
			Rate float64 `json:"calls_per_s"`
		}
		if err := json.Unmarshal(out, &result); err != nil {
			return fmt.Errorf("peer: %w", err)
		}
		b.set(name+".rate", result.Rate)
		return nil
	}
}
