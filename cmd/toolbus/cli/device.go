package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/internal/ui"
	"github.com/toolbus/toolbus/store"
	"github.com/toolbus/toolbus/tool"
)

type deviceCommands struct {
	Attach deviceAttachCommand `cmd:"" help:"Record that a device is connected: new sessions offer its tools."`
	Detach deviceDetachCommand `cmd:"" help:"Record that a device is gone: calls of its tools are unavailable."`
	List   deviceListCommand   `cmd:"" help:"List devices."`
}

// maximumSpecsBytes bounds the file of declarations.
const maximumSpecsBytes = 4 << 20

type deviceAttachCommand struct {
	place
	ID     string `arg:"" help:"The device."`
	Specs  string `required:"" help:"JSON file with the list of its tool declarations; - reads standard input." placeholder:"FILE"`
	Tenant string `help:"Tenant to act in." default:"default"`
	JSON   bool   `name:"json" help:"Print the declarations as they were stored."`
}

// Run attaches a device.
func (c *deviceAttachCommand) Run(ctx context.Context, p *process) error {
	specs, err := c.read(p)
	if err != nil {
		return err
	}
	o, err := c.find(ctx, p)
	if err != nil {
		return err
	}
	stored, err := app.AttachDevice(ctx, o, c.Tenant, c.ID, specs)
	switch {
	case errors.Is(err, app.ErrDeviceRefused):
		return wrongUse("%w", err)
	case err != nil:
		return err //nolint:wrapcheck // says what it is
	case c.JSON:
		return p.json(stored)
	}
	names := make([]string, len(stored))
	for i := range stored {
		names[i] = stored[i].Name
	}
	p.out.Printf("%s is attached with %s\n", c.ID, strings.Join(names, ", "))
	return nil
}

func (c *deviceAttachCommand) read(p *process) ([]tool.Spec, error) {
	in := p.in
	if c.Specs != "-" {
		f, err := os.Open(c.Specs)
		if err != nil {
			return nil, wrongUse("--specs: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maximumSpecsBytes))
	if err != nil {
		return nil, fmt.Errorf("--specs: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var specs []tool.Spec
	if err := d.Decode(&specs); err != nil {
		return nil, wrongUse("--specs: %w", err)
	}
	return specs, nil
}

type deviceDetachCommand struct {
	place
	ID     string `arg:"" help:"The device."`
	Tenant string `help:"Tenant to act in." default:"default"`
}

// Run detaches a device.
func (c *deviceDetachCommand) Run(ctx context.Context, p *process) error {
	o, err := c.find(ctx, p)
	if err != nil {
		return err
	}
	if err := app.DetachDevice(ctx, o, c.Tenant, c.ID); err != nil {
		if store.IsNotFound(err) {
			return advise(fmt.Errorf("device %s is not attached", c.ID), "`toolbus device list` shows which are")
		}
		return err //nolint:wrapcheck // says what it is
	}
	p.out.Printf("%s is detached\n", c.ID)
	return nil
}

type deviceListCommand struct {
	place
	Tenant string `help:"Tenant to act in." default:"default"`
	JSON   bool   `name:"json" help:"Print JSON."`
}

// Run lists devices.
func (c *deviceListCommand) Run(ctx context.Context, p *process) error {
	o, err := c.find(ctx, p)
	if err != nil {
		return err
	}
	all, err := app.ListDevices(ctx, o, c.Tenant)
	if err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	if c.JSON {
		return p.json(deviceRows(all))
	}
	rows := make([][]ui.Cell, 0, len(all))
	for _, d := range deviceRows(all) {
		state := ui.Styled(ui.Dim, "detached")
		if d.Attached {
			state = ui.Styled(ui.Green, "attached")
		}
		rows = append(rows, []ui.Cell{ui.Styled(ui.Bold, d.ID), state, ui.Text(strings.Join(d.Tools, ", "))})
	}
	p.out.Table("", []string{"device", "state", "tools"}, rows)
	return nil
}

type deviceRow struct {
	ID       string   `json:"device_id"`
	Attached bool     `json:"attached"`
	Tools    []string `json:"tools"`
}

func deviceRows(all []store.Device) []deviceRow {
	rows := make([]deviceRow, len(all))
	for i, d := range all {
		rows[i] = deviceRow{ID: d.ID, Attached: d.Attached, Tools: []string{}}
		for _, spec := range d.Specs {
			rows[i].Tools = append(rows[i].Tools, spec.Name)
		}
	}
	return rows
}
