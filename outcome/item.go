package outcome

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolbus/toolbus/tool"
)

// Object is what a model reads of a call that did not succeed: exactly these
// six fields, in this order, for all four statuses (Decision 11).
type Object struct {
	Status      tool.OutcomeStatus `json:"status"`
	Action      string             `json:"action"`
	ReasonCode  string             `json:"reason_code"`
	Message     string             `json:"message"`
	Retryable   bool               `json:"retryable"`
	Remediation Remediation        `json:"remediation"`
}

// Item is the result of a call as a model reads it, the item of an outcome
// message. Content is rendered: excerpted and enveloped.
type Item struct {
	// Trust is the label of everything in Content and Structured.
	Trust   tool.Trust  `json:"trust"`
	Content []tool.Part `json:"content"`
	// Structured is nil, which is null on the wire, whenever Trust is
	// external_untrusted.
	Structured json.RawMessage `json:"structured"`
	// Outcome is nil exactly when the call succeeded.
	Outcome *Object `json:"outcome"`
}

// MarshalJSON writes the four members, content never null. It does not fail:
// structured data that has no normal form is written as null.
func (it Item) MarshalJSON() ([]byte, error) { return appendItem(nil, it), nil }

// uncertainNote goes beside the object of an uncertain call: the message alone
// does not say what to do next.
const uncertainNote = "The action may have happened, completely or in part. " +
	"Look at the state it would have changed before deciding anything that depends on it."

// Conclude makes the item of a call about which the pipeline has everything to
// say and a tool nothing: no content but, for an uncertain call, a note that the
// action may have happened and that its effect should be looked at.
func Conclude(o Object) Item {
	it := Item{Trust: tool.Platform, Content: []tool.Part{}, Outcome: &o}
	if o.Status == tool.OutcomeUncertain {
		it.Content = append(it.Content, tool.Text(uncertainNote))
	}
	return it
}

// Violation says where arguments break their schema and which rule they break.
// It never carries the value.
type Violation struct {
	// Path is a JSON pointer into the arguments.
	Path string
	// Rule is the schema keyword with its parameters.
	Rule string
}

const (
	maximumViolations     = 16
	maximumViolationBytes = 256
)

// InvalidArguments makes the item of a call whose arguments failed validation:
// a text part that names path and rule of each violation (the first 16, each
// line at most 256 bytes) and, where schema is not empty, a second with the
// tool's input schema. Callers give the schema when the call came through
// tool.call, whose definition of the tool never reached the model.
//
// The text is the platform's own for a builtin. Where spec has a source that
// forces distrust, property names and schema were written by a third party:
// then the item is external_untrusted and both parts are enveloped. A nil nonce
// means [NewNonce].
func (t *Table) InvalidArguments(
	spec tool.Spec, violations []Violation, schema json.RawMessage, nonce func() string,
) (Item, error) {
	parts := []tool.Part{tool.Text(violationText(violations))}
	if len(schema) > 0 {
		var compact bytes.Buffer
		if err := json.Compact(&compact, schema); err != nil {
			return Item{}, fmt.Errorf("input schema of %s: %w", spec.Name, err)
		}
		parts = append(parts, tool.Text(cleanText(compact.String(), nil)))
	}
	object := t.Object(tool.OutcomeFailed, spec.Name, CodeArgumentsInvalid)
	item := Item{Trust: tool.Platform, Content: parts, Outcome: &object}
	if !spec.Source.ForcesUntrusted() {
		return item, nil
	}
	item.Trust = tool.ExternalUntrusted
	env := envelope{source: spec.Name, nonce: nonceOr(nonce)}
	for i := range parts {
		text, err := env.wrap(parts[i].Text)
		if err != nil {
			return Item{}, err
		}
		parts[i] = tool.Text(text)
	}
	return item, nil
}

func violationText(violations []Violation) string {
	var b strings.Builder
	for i, v := range violations {
		if i == maximumViolations {
			fmt.Fprintf(&b, "and %d more", len(violations)-i)
			break
		}
		path := v.Path
		if path == "" {
			path = "/"
		}
		line := cleanText(strings.Join(strings.Fields(path+": "+v.Rule), " "), nil)
		b.WriteString(prefixWithin(line, maximumViolationBytes) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
