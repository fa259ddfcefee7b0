package pipeline

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/toolbus/toolbus/argschema"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/tool"
)

// Session is what a runtime opened: on whose authority it acts, and the tools
// that were pinned for it. It does not change; revocation and closing are facts
// that the transactions read. Safe for concurrent use.
type Session struct {
	TenantID     string
	ID           tool.ID
	RequestID    string
	Principal    tool.Principal
	Scopes       []string
	AgentID      string
	AgentTools   []string
	Profile      string
	RunDeadline  time.Duration
	MaxToolCalls int
	OpenedAt     time.Time
	Catalog      *Catalog
}

// Catalog is a pin with its schemas compiled as they are first needed. Sessions
// with the same pin share one. Safe for concurrent use.
type Catalog struct {
	Pin *registry.Pin

	mu      sync.Mutex
	inputs  map[string]*argschema.Schema
	outputs map[string]*argschema.Output
}

// NewCatalog wraps a pin.
func NewCatalog(pin *registry.Pin) *Catalog {
	return &Catalog{Pin: pin, inputs: map[string]*argschema.Schema{}, outputs: map[string]*argschema.Output{}}
}

// Input gives the compiled input schema of a pinned tool. An error means that
// the pin holds what registration would have refused.
func (c *Catalog) Input(spec tool.Spec) (*argschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.inputs[spec.Name]; s != nil {
		return s, nil
	}
	options := argschema.Builtin()
	if spec.Source == tool.MCP || spec.Source == tool.Device {
		options = argschema.Remote()
	}
	s, err := argschema.Compile(spec.InputSchema, options)
	if err != nil {
		return nil, fmt.Errorf("input schema of %s: %w", spec.Name, err)
	}
	c.inputs[spec.Name] = s
	return s, nil
}

// CheckOutput validates a structured result against the tool's output schema;
// a tool without one passes.
func (c *Catalog) CheckOutput(spec tool.Spec, structured json.RawMessage) error {
	if len(spec.OutputSchema) == 0 {
		return nil
	}
	c.mu.Lock()
	o := c.outputs[spec.Name]
	if o == nil {
		var err error
		if o, err = argschema.CompileOutput(spec.OutputSchema); err != nil {
			c.mu.Unlock()
			return fmt.Errorf("output schema of %s: %w", spec.Name, err)
		}
		c.outputs[spec.Name] = o
	}
	c.mu.Unlock()
	if len(structured) == 0 {
		structured = json.RawMessage("null")
	}
	return o.Validate(structured) //nolint:wrapcheck // the caller words it
}
