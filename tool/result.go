package tool

import "encoding/json"

// Part is one piece of content: a text, or a reference to an artifact. Inline
// bytes do not exist. On the wire it is {"type":"text","text"} or
// {"type":"artifact","artifact_id","media_type","bytes","sha256"}.
type Part struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	*ArtifactRef
}

// The values of [Part.Type].
const (
	PartText     = "text"
	PartArtifact = "artifact"
)

// Text makes a text part.
func Text(s string) Part { return Part{Type: PartText, Text: s} }

// ArtifactPart makes a part that refers to an artifact.
func ArtifactPart(ref ArtifactRef) Part { return Part{Type: PartArtifact, ArtifactRef: &ref} }

// MarshalJSON writes exactly the members of the part's type.
func (p Part) MarshalJSON() ([]byte, error) {
	if p.Type == PartArtifact && p.ArtifactRef != nil {
		return json.Marshal(struct {
			Type string `json:"type"`
			ArtifactRef
		}{PartArtifact, *p.ArtifactRef})
	}
	return json.Marshal(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{PartText, p.Text})
}

// ArtifactRef names an artifact of the caller's own tenant.
type ArtifactRef struct {
	ID        ID     `json:"artifact_id"`
	MediaType string `json:"media_type"`
	// Bytes is the length of the artifact.
	Bytes int64 `json:"bytes"`
	// SHA256 is lowercase hex over the whole artifact.
	SHA256 string `json:"sha256"`
}

// Result is what a tool returns: it succeeded, or it failed itself. It cannot
// express denial, uncertainty or unavailability; those are the pipeline's
// judgements (Decision 1).
type Result struct {
	OK      bool
	Content []Part
	// Structured is validated against [Spec.OutputSchema]; nil for none.
	Structured json.RawMessage
	Artifacts  []ArtifactRef
	// Failure is set exactly when OK is false.
	Failure *Failure
	// OutputTrust may only lower the declared trust; empty keeps it.
	OutputTrust Trust
	// Metrics become span attributes and nothing else.
	Metrics map[string]int64
	// Evidence is a digest of what was observed, never shown to a model and
	// never stored with the result; empty for none (specification, "New evidence").
	Evidence string
	// EffectNotApplied is the proof, by a party that can know, that a failed
	// call applied no effect. Without it, a failure of a non-idempotent call
	// after its watermark is uncertain where the target is a remote server.
	EffectNotApplied bool
}

// Failure is a tool's own account of what went wrong.
type Failure struct {
	Kind FailureKind
	// ReasonCode is tool.{kind} or tool.{kind}.{detail}; empty means tool.{kind}.
	ReasonCode string
	// Detail is for operators; never sent onward.
	Detail    string
	Retryable bool
	// ExternalText is verbatim third-party text. It reaches a model only inside
	// an untrusted envelope.
	ExternalText string
}

// Succeed makes a successful result.
func Succeed(parts ...Part) Result { return Result{OK: true, Content: parts} }

// Fail makes a failed result of the given kind. detail is for operators.
func Fail(kind FailureKind, detail string) Result {
	return Result{Failure: &Failure{Kind: kind, Detail: detail}}
}
