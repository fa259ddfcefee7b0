package cli

import (
	"context"
	"errors"
	"io"

	"github.com/toolbus/toolbus/app"
)

// serviceCommand runs one service until it is told to stop.
type serviceCommand struct {
	place
	JSON      bool   `name:"json" help:"Print a line of JSON once ready."`
	DemoSink  string `help:"File to which demo.external_write appends its effects." type:"path" hidden:""`
	WithStdin bool   `help:"Stop when standard input ends: for a parent that may die." hidden:""`

	service app.Service
}

// Run runs the service.
func (c *serviceCommand) Run(ctx context.Context, p *process) error {
	o, err := c.find(ctx, p)
	if err != nil {
		return err
	}
	o.DemoSink, o.Bus.Name = c.DemoSink, "toolbus-"+string(c.service)
	if c.WithStdin {
		var release func()
		ctx, release = untilEnd(ctx, p.in)
		defer release()
	}
	n, err := app.Open(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before it had begun
		}
		return advise(err, "`toolbus doctor` tells what is wrong with the engines")
	}
	err = serve(ctx, n, func() error { return c.ready(p) }, c.service)
	return errors.Join(err, n.Close(context.WithoutCancel(ctx)))
}

func (c *serviceCommand) ready(p *process) error {
	if c.JSON {
		return p.json(map[string]any{"service": string(c.service), "ready": true})
	}
	p.out.Printf("%s is ready\n", c.service)
	return nil
}

// serve runs services until ctx ends or ready, which is called once, fails.
func serve(ctx context.Context, n *app.Node, ready func() error, services ...app.Service) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	err := n.Run(ctx, func() {
		if failed = ready(); failed != nil {
			cancel()
		}
	}, services...)
	return errors.Join(failed, err)
}

// untilEnd gives a context that also ends with the stream, which nothing else
// may read. A read cannot be cut short: the reader is left to the stream's end,
// and release only makes it harmless.
func untilEnd(ctx context.Context, in io.Reader) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx, cancel
}
