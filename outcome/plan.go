package outcome

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/toolbus/toolbus/tool"
)

// ErrLimits says that a limit of an [Input] cannot hold even empty content.
var ErrLimits = errors.New("output limits are too small")

// hardCeilingFactor times the maximum output is the hard ceiling of what is read.
const hardCeilingFactor = 4

// Input is the result of one execution and what its admission depends on.
type Input struct {
	// Spec is the registered declaration of the tool that ran.
	Spec   tool.Spec
	Result tool.Result
	// Status and Code are the pipeline's conclusion where it differs from what
	// the result says (a failure that is uncertain, an output that breaks its
	// schema). The zero Status means: as the result says.
	Status tool.OutcomeStatus
	Code   string
	// InlineMaximum is output.inline_maximum_bytes; the inline budget is the
	// lesser of it and the tool's maximum output.
	InlineMaximum int
	// Source names the author in envelopes; empty means the tool's name.
	Source string
	// Nonce makes the nonces of envelopes; nil means [NewNonce].
	Nonce func() string
	// Secrets are scrubbed from everything the tool returned.
	Secrets []string
	// CanCapture says that an artifact can be written for this call.
	CanCapture bool
}

// Capture is the whole output of a call, to be written to an artifact before
// the result is recorded. Its trust is the plan's.
type Capture struct {
	// MediaType is text/plain; charset=utf-8 for a single text, whose bytes are
	// captured as they are, and application/json for the compact JSON of several
	// parts.
	MediaType string
	Bytes     []byte
}

const (
	mediaText = "text/plain; charset=utf-8"
	mediaJSON = "application/json"
)

// Plan is a result that has been measured, between steps 11 and 12: the caller
// writes Capture, if there is one, and calls [Plan.Render] with the reference.
type Plan struct {
	// Trust is the clamped label of the result.
	Trust tool.Trust
	// Outcome is nil when the call succeeded.
	Outcome *Object
	// OutputBytes is the length of the compact JSON of the content, before
	// envelope, excerpt and hard ceiling.
	OutputBytes int64
	// Truncated says that the model reads less than the whole.
	Truncated bool
	// Capture is nil when no artifact is to be written.
	Capture *Capture

	parts      []tool.Part
	structured json.RawMessage
	inline     int
	maximum    int
	envelope   envelope
}

// Measure decides what becomes of a result: its trust, its outcome, what of it
// goes inline and what into an artifact. It does no I/O.
//
// Everything a tool returned is scrubbed and made storable first. A success that
// exceeds the hard ceiling, or that needs an artifact which cannot be written or
// whose reference does not fit the inline budget, becomes a failure
// tool.output_too_large; a failure keeps its code and loses only bytes. The
// error wraps [ErrStructuredInvalid] for a success whose structured data cannot
// be kept, [ErrLimits] for limits that cannot hold even empty content.
func (t *Table) Measure(in Input) (Plan, error) {
	p := Plan{
		maximum:  in.Spec.MaximumOutputBytes,
		inline:   min(in.Spec.MaximumOutputBytes, in.InlineMaximum),
		Trust:    in.trust(),
		envelope: envelope{source: in.Source, nonce: nonceOr(in.Nonce)},
	}
	if p.inline < len("[]") {
		return Plan{}, fmt.Errorf("%w: maximum %d, inline %d", ErrLimits, p.maximum, in.InlineMaximum)
	}
	if in.Source == "" {
		p.envelope.source = in.Spec.Name
	}
	status, code := t.conclusion(in)
	scrub := NewScrubber(in.Secrets)
	structured, err := normalize(in.Result.Structured, scrub)
	if err != nil && status == tool.OutcomeSucceeded {
		return Plan{}, err
	}
	p.parts = canonicalParts(in.Result, scrub)
	p.placeStructured(structured, in.Spec.Kind)
	p.OutputBytes = int64(contentCost(p.parts))

	complete := p.capture(in.CanCapture)
	if status == tool.OutcomeSucceeded && !complete {
		status, code = tool.OutcomeFailed, CodeOutputTooLarge
	}
	if status != tool.OutcomeSucceeded {
		object := t.Object(status, in.Spec.Name, code)
		p.Outcome = &object
	}
	return p, nil
}

// conclusion gives the status of the call and, where it is no success, its code.
func (t *Table) conclusion(in Input) (tool.OutcomeStatus, string) {
	switch {
	case in.Status != "":
		return in.Status, in.Code
	case in.Result.OK && in.Result.Failure == nil:
		return tool.OutcomeSucceeded, ""
	case in.Result.Failure == nil:
		return tool.OutcomeFailed, CodeInternal
	}
	return tool.OutcomeFailed, t.FailureCode(*in.Result.Failure)
}

// trust clamps the label: a forced source is untrusted, a result may only
// lower, text of a third party lowers, and a word outside the set is the lowest.
func (in Input) trust() tool.Trust {
	label := in.Spec.OutputTrust
	if claimed := in.Result.OutputTrust; claimed != "" {
		label = tool.MinTrust(label, claimed)
	}
	external := in.Result.Failure != nil && in.Result.Failure.ExternalText != ""
	if in.Spec.Source.ForcesUntrusted() || external || !label.Valid() {
		return tool.ExternalUntrusted
	}
	return label
}

// canonicalParts gives the content as it is kept: storable texts, references
// whose strings are what they claim to be, artifacts that no part mentions, and
// last what a third party said about a failure.
func canonicalParts(r tool.Result, scrub *Scrubber) []tool.Part {
	parts := make([]tool.Part, 0, len(r.Content)+len(r.Artifacts)+1)
	for _, p := range r.Content {
		switch {
		case isArtifact(p):
			parts = append(parts, tool.ArtifactPart(storableRef(*p.ArtifactRef)))
		case p.Type != tool.PartArtifact:
			parts = append(parts, tool.Text(cleanText(p.Text, scrub)))
		}
	}
	for _, ref := range r.Artifacts {
		mentioned := slices.ContainsFunc(parts, func(p tool.Part) bool {
			return isArtifact(p) && p.ID == ref.ID
		})
		if !mentioned {
			parts = append(parts, tool.ArtifactPart(storableRef(ref)))
		}
	}
	if r.Failure != nil && r.Failure.ExternalText != "" {
		parts = append(parts, tool.Text(cleanText(r.Failure.ExternalText, scrub)))
	}
	return parts
}

var (
	mediaGrammar = regexp.MustCompile(`^[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}(; ?charset=[A-Za-z0-9_-]{1,32})?$`)
	sha256Hex    = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// storableRef keeps the strings of a reference only when they are what they
// should be: a reference stands outside every envelope.
func storableRef(ref tool.ArtifactRef) tool.ArtifactRef {
	if !mediaGrammar.MatchString(ref.MediaType) {
		ref.MediaType = "application/octet-stream"
	}
	if !sha256Hex.MatchString(ref.SHA256) {
		ref.SHA256 = ""
	}
	return ref
}

// placeStructured keeps structured data beside the content, or moves it into
// the content as its compact JSON: untrusted data has to stand in an envelope,
// and data above the tool's maximum has to pass the same limits as text. A
// control tool's stays whole. What a text part already says is not said twice.
func (p *Plan) placeStructured(structured json.RawMessage, kind tool.Kind) {
	small := kind == tool.Control || len(structured) <= p.maximum
	if structured == nil || (small && p.Trust != tool.ExternalUntrusted) {
		p.structured = structured
		return
	}
	said := slices.ContainsFunc(p.parts, func(part tool.Part) bool {
		if isArtifact(part) || len(part.Text) < 2 {
			return false
		}
		normal, err := normalize(json.RawMessage(part.Text), nil)
		return err == nil && bytes.Equal(normal, structured)
	})
	if !said {
		p.parts = append(p.parts, tool.Text(string(structured)))
	}
}

// capture plans the artifact. It reports false when the output is not complete:
// cut at the hard ceiling, or excerpted with nowhere to keep the whole.
func (p *Plan) capture(possible bool) (complete bool) {
	parts, clipped := clip(p.parts, hardCeilingFactor*p.maximum)
	p.parts, p.Truncated, complete = parts, clipped, !clipped
	if contentCost(p.parts) <= p.inline {
		return complete
	}
	p.Truncated = true
	c := captureOf(p.parts)
	expected := tool.ArtifactRef{
		MediaType: c.MediaType,
		Bytes:     int64(len(c.Bytes)),
		SHA256:    string(bytes.Repeat([]byte{'0'}, 64)),
	}
	if !possible || spare(p.parts, p.inline, &expected) < 0 {
		return false
	}
	p.Capture = &c
	return complete
}

// captureOf gives what goes into the artifact.
func captureOf(parts []tool.Part) Capture {
	if len(parts) == 1 && !isArtifact(parts[0]) {
		return Capture{MediaType: mediaText, Bytes: []byte(parts[0].Text)}
	}
	return Capture{MediaType: mediaJSON, Bytes: appendContent(nil, parts)}
}

// validPrefix gives the longest prefix of at most limit bytes that ends at a
// character boundary of the UTF-8 text s.
func validPrefix(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
