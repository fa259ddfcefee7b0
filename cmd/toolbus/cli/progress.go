package cli

import (
	"context"
	"errors"
	"time"

	"github.com/toolbus/toolbus/internal/ui"
)

// phase does a piece of work and says on standard error what it is and how long
// it took: as it goes on a terminal, in a line at the end elsewhere. What fails
// because ctx has ended fails with its error.
func (p *process) phase(ctx context.Context, name string, do func() error) error {
	if p.err.Terminal() {
		p.err.Printf("  %s %s", p.err.Paint(ui.Dim, "…"), name)
	}
	start := time.Now()
	err := do()
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	mark := p.err.Paint(ui.Green, "✓")
	switch {
	case errors.Is(err, context.Canceled):
		mark = p.err.Paint(ui.Yellow, "–")
	case err != nil:
		mark = p.err.Paint(ui.Red, "✗")
	}
	if p.err.Terminal() {
		p.err.Printf("\r\x1b[K")
	}
	p.err.Printf("  %s %s  %s\n", mark, name, p.err.Paint(ui.Dim, ui.Duration(time.Since(start))))
	return err
}
