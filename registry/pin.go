package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolbus/toolbus/canonical"
	"github.com/toolbus/toolbus/tool"
)

// ErrPin says that a set of tools cannot be pinned or a stored pin not be read.
var ErrPin = errors.New("pin is not usable")

// pinVersion is the format of a stored pin.
const pinVersion = 1

// Pin is the set of tools one session resolves against from its opening to its
// end (specification, "Advertisement is pinned; availability is resolved at call
// time"). Nothing that happens to a server, a scope or the registry changes it.
// It is immutable and safe for concurrent use.
type Pin struct {
	specs      []tool.Spec // sorted by name
	index      map[string]int
	advertised []AdvertisedTool
	toolsHash  string
	specsHash  string
}

// AdvertisedTool is what a client reads of a pinned tool, with exactly the
// members of the contract's session_open answer (section 3).
type AdvertisedTool struct {
	Name        string          `json:"name"`
	Alias       string          `json:"alias"`
	Version     string          `json:"version"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Kind        tool.Kind       `json:"kind"`
	SideEffect  tool.SideEffect `json:"side_effect"`
	OutputTrust tool.Trust      `json:"output_trust"`
	Deferred    bool            `json:"deferred"`
	Deprecated  bool            `json:"deprecated"`
}

// NewPin pins specs, in any order; the caller's slice is not kept. It fails with
// [ErrPin] when two of them share a name or an alias, or one cannot be hashed,
// which no set of registered declarations does.
func NewPin(specs []tool.Spec) (*Pin, error) {
	p := &Pin{specs: append([]tool.Spec{}, specs...), index: make(map[string]int, 2*len(specs)), advertised: []AdvertisedTool{}}
	slices.SortFunc(p.specs, func(a, b tool.Spec) int { return strings.Compare(a.Name, b.Name) })
	for i, spec := range p.specs {
		alias := Alias(spec.Name)
		for _, key := range []string{spec.Name, alias} {
			if _, taken := p.index[key]; taken {
				return nil, fmt.Errorf("%w: two tools are called %s", ErrPin, key)
			}
			p.index[key] = i
		}
		if !spec.Hidden {
			p.advertised = append(p.advertised, advertise(spec, alias))
		}
	}
	var err error
	if p.toolsHash, err = hash(p.advertised); err != nil {
		return nil, err
	}
	p.specsHash, err = hash(p.specs)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func advertise(spec tool.Spec, alias string) AdvertisedTool {
	return AdvertisedTool{
		Name: spec.Name, Alias: alias, Version: spec.Version, Description: spec.Description,
		InputSchema: spec.InputSchema, Kind: spec.Kind, SideEffect: spec.SideEffect,
		OutputTrust: spec.OutputTrust, Deferred: spec.Deferred, Deprecated: spec.Deprecated,
	}
}

// hash gives the lowercase hex sha256 of the canonical JSON of v.
func hash(v any) (string, error) {
	raw, err := encode(v)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrPin, err)
	}
	form, err := canonical.Form(raw)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrPin, err)
	}
	return canonical.Hash(form), nil
}

// encode is json.Marshal without the HTML escapes, which would change the bytes
// of a schema that was stored as it came.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Specs lists the pinned declarations, sorted by name. The slice is the
// caller's; the bytes of schemas are shared and not to be changed.
func (p *Pin) Specs() []tool.Spec { return slices.Clone(p.specs) }

// Len gives the number of pinned tools, hidden ones included.
func (p *Pin) Len() int { return len(p.specs) }

// Advertised lists what a client is told, sorted by name, without hidden tools.
// It is never nil.
func (p *Pin) Advertised() []AdvertisedTool { return slices.Clone(p.advertised) }

// ToolSchemaSHA256 is the lowercase hex sha256 of the canonical JSON of
// [Pin.Advertised]: equal exactly when the advertised text is.
func (p *Pin) ToolSchemaSHA256() string { return p.toolsHash }

// SpecsSHA256 is the lowercase hex sha256 of the canonical JSON of the full
// declarations, hidden tools and unadvertised fields included.
func (p *Pin) SpecsSHA256() string { return p.specsHash }

// Resolve gives the pinned tool of that registry name or alias. What is
// registered but not pinned does not exist here.
func (p *Pin) Resolve(nameOrAlias string) (tool.Spec, bool) {
	i, ok := p.index[nameOrAlias]
	if !ok {
		return tool.Spec{}, false
	}
	return p.specs[i], true
}

type storedPin struct {
	V     int         `json:"v"`
	Specs []tool.Spec `json:"specs"`
}

// MarshalJSON writes the stored form, {"v":1,"specs":[…]}.
func (p *Pin) MarshalJSON() ([]byte, error) {
	return encode(storedPin{V: pinVersion, Specs: p.specs})
}

// UnmarshalJSON reads the stored form into a pin that nobody shares yet. Another
// version or an unknown member is [ErrPin]: a field this build does not know
// could be the one that forbids something.
func (p *Pin) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var stored storedPin
	if err := dec.Decode(&stored); err != nil {
		return fmt.Errorf("%w: %w", ErrPin, err)
	}
	if stored.V != pinVersion {
		return fmt.Errorf("%w: version %d", ErrPin, stored.V)
	}
	read, err := NewPin(stored.Specs)
	if err != nil {
		return err
	}
	*p = *read
	return nil
}
