package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/store"
)

// Inspection is the state of the engines as [Inspect] found it.
type Inspection struct {
	// Database is what PostgreSQL said; DatabaseErr why it said nothing, or not
	// all.
	Database    store.Inspection
	DatabaseErr error
	// NATSVersion is the release of the server; NATSErr says why it was not
	// reached, StreamsErr what is wrong with its streams and durables.
	NATSVersion         string
	NATSErr, StreamsErr error
}

// errNoAddress says that nothing names the engine.
var errNoAddress = errors.New("no address is configured")

// Inspect looks at both engines, and changes nothing. ctx bounds how long it
// waits for one that does not answer.
func Inspect(ctx context.Context, o Options) Inspection {
	o.withDefaults()
	var i Inspection
	if o.Database == "" {
		i.DatabaseErr = errNoAddress
	} else {
		i.Database, i.DatabaseErr = store.Inspect(ctx, o.Database)
	}
	if o.Bus.URL == "" && o.Bus.Server == nil {
		i.NATSErr, i.StreamsErr = errNoAddress, errNoAddress
		return i
	}
	b, err := bus.Connect(ctx, o.Bus)
	if err != nil {
		i.NATSErr, i.StreamsErr = err, fmt.Errorf("not looked at: %w", err)
		return i
	}
	defer b.Close()
	i.NATSVersion = b.ServerVersion()
	i.StreamsErr = b.Check(ctx, Topology(o))
	return i
}
