package outcome

import (
	"errors"
	"fmt"

	"github.com/toolbus/toolbus/tool"
)

// ErrReference says that [Plan.Render] was called without the reference of the
// artifact its plan asked for, or with one that does not fit.
var ErrReference = errors.New("artifact reference")

// Admitted is what is recorded of a call and what its model reads.
type Admitted struct {
	// Item is stored as rendered, nonces included, and never rendered again.
	Item Item
	// Canonical is the content for programmatic readers: no envelopes, whole up
	// to the tool's own maximum output, an excerpt above it.
	Canonical []tool.Part
	// OutputBytes is [Plan.OutputBytes].
	OutputBytes int64
	// Truncated says that Item holds less than the whole.
	Truncated bool
	// Artifact is the whole output, nil when everything is in Item.
	Artifact *tool.ArtifactRef
}

// Render makes the item. ref names the artifact that holds the plan's Capture
// and is nil when there is none, else the error wraps [ErrReference]. Each call
// draws fresh nonces; with equal nonces the result is equal.
//
// The compact JSON of the item's content, envelopes excluded, is never longer
// than the inline budget.
func (p *Plan) Render(ref *tool.ArtifactRef) (Admitted, error) {
	if (ref != nil) != (p.Capture != nil) {
		return Admitted{}, fmt.Errorf("%w: wanted %t, given %t", ErrReference, p.Capture != nil, ref != nil)
	}
	if ref != nil {
		stored := storableRef(*ref)
		ref = &stored
	}
	wrap := bare
	if !p.Trust.AtLeast(tool.InternalTool) {
		wrap = p.envelope.wrap
	}
	content, err := fit(p.parts, p.inline, ref, wrap)
	if err != nil {
		return Admitted{}, fmt.Errorf("render content: %w", err)
	}
	canonical, err := fit(p.parts, p.maximum, ref, bare)
	if err != nil {
		return Admitted{}, fmt.Errorf("excerpt canonical content: %w", err)
	}
	return Admitted{
		Item:        Item{Trust: p.Trust, Content: content, Structured: p.structured, Outcome: p.Outcome},
		Canonical:   canonical,
		OutputBytes: p.OutputBytes,
		Truncated:   p.Truncated,
		Artifact:    ref,
	}, nil
}

// fit gives parts whole when they cost at most budget bytes, else their two
// ends. Where not even the marker fits, an output without artifact is left out;
// with one it is an error, which the plan has excluded.
func fit(parts []tool.Part, budget int, ref *tool.ArtifactRef, wrap func(string) (string, error)) ([]tool.Part, error) {
	if contentCost(parts) <= budget {
		return wrapTexts(parts, wrap)
	}
	e, ok := cut(parts, budget, ref)
	switch {
	case ok:
		return e.render(wrap)
	case ref == nil:
		return []tool.Part{}, nil
	}
	return nil, fmt.Errorf("%w does not fit %d bytes", ErrReference, budget)
}
