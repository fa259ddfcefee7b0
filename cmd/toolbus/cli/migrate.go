package cli

import (
	"context"
	"errors"

	"github.com/toolbus/toolbus/app"
)

type migrateCommand struct {
	place
}

// Run brings both schemas up to this build.
func (c *migrateCommand) Run(ctx context.Context, p *process) error {
	o, err := c.find(ctx, p)
	if err != nil {
		return err
	}
	err = p.phase(ctx, "tables, streams and consumers", func() error { return app.Migrate(ctx, o) })
	if errors.Is(err, context.Canceled) {
		return err
	}
	return advise(err, "the address needs an owner that may create roles and tables (TOOLBUS_DATABASE_OWNER_URL); `toolbus doctor` tells more")
}
