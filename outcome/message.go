package outcome

import (
	"strconv"
	"strings"

	"github.com/toolbus/toolbus/tool"
)

// MaximumMessageBytes bounds every message of the bus.
const MaximumMessageBytes = 512 << 10

// Row is what an outcome message is made of: the columns of a terminal
// invocation row and of the step it ended.
type Row struct {
	RunID        tool.ID
	SessionID    tool.ID
	StepNumber   int
	CallID       string
	InvocationID tool.ID
	// ToolName is the registry name, never the alias.
	ToolName string
	Status   tool.OutcomeStatus
	// Item is the item as it was rendered once and stored.
	Item        Item
	Truncated   bool
	OutputBytes int64
	Artifact    *tool.ArtifactRef
	// RunError is tool_policy_denied or tool_loop_detected on the call that
	// tripped the breaker; empty otherwise.
	RunError string
	// SynthesisOnly stands on the outcome that ends its step.
	SynthesisOnly bool
}

// Message gives the outcome message of a row, the same bytes for the same row
// whatever the store did to the spelling of its JSON. maxBytes of zero or less
// means [MaximumMessageBytes].
//
// A message above the bound goes without structured data and says truncated; if
// it is still above, its content is cut behind the last bytes that fit, open
// envelopes closed. The row keeps the whole.
func Message(r Row, maxBytes int) []byte {
	if maxBytes <= 0 {
		maxBytes = MaximumMessageBytes
	}
	b := appendMessage(nil, r)
	if len(b) <= maxBytes {
		return b
	}
	r.Item.Structured, r.Truncated = nil, true
	if b = appendMessage(b[:0], r); len(b) <= maxBytes {
		return b
	}
	content := r.Item.Content
	r.Item.Content = nil
	frame := len(appendMessage(b[:0], r))
	r.Item.Content = headOf(content, maxBytes-frame, r.Artifact, r.Item.Trust.AtLeast(tool.InternalTool))
	return appendMessage(b[:0], r)
}

func appendMessage(b []byte, r Row) []byte {
	b = appendString(append(b, `{"v":1,"run_id":`...), r.RunID.String())
	b = appendString(append(b, `,"session_id":`...), r.SessionID.String())
	b = strconv.AppendInt(append(b, `,"step_number":`...), int64(r.StepNumber), 10)
	b = appendString(append(b, `,"call_id":`...), r.CallID)
	b = appendString(append(b, `,"invocation_id":`...), r.InvocationID.String())
	b = appendString(append(b, `,"tool_name":`...), r.ToolName)
	b = appendString(append(b, `,"status":`...), string(r.Status))
	b = appendItem(append(b, `,"item":`...), r.Item)
	b = strconv.AppendBool(append(b, `,"truncated":`...), r.Truncated)
	b = strconv.AppendInt(append(b, `,"output_bytes":`...), r.OutputBytes, 10)
	b = appendRef(append(b, `,"artifact":`...), r.Artifact)
	b = append(b, `,"run_error":`...)
	if r.RunError == "" {
		b = append(b, "null"...)
	} else {
		b = appendString(b, r.RunError)
	}
	b = strconv.AppendBool(append(b, `,"synthesis_only":`...), r.SynthesisOnly)
	return append(b, '}')
}

// headOf gives the beginning of rendered content whose compact JSON, brackets
// excluded, has at most budget bytes: whole parts, a last one cut, and the marker. Nonces cannot be
// drawn here, because the same row must give the same bytes; so nothing is
// reopened behind the marker, and a cut envelope is closed with its own nonce.
// trusted says that the texts stand in no envelopes.
func headOf(content []tool.Part, budget int, ref *tool.ArtifactRef, trusted bool) []tool.Part {
	total := rawSize(content)
	budget -= textOverhead + len(marker(total, ref))
	if budget < 0 {
		return nil
	}
	whole, _ := takeHead(content, budget)
	kept := append([]tool.Part{}, content[:whole]...)
	for _, p := range kept {
		budget -= partCost(p) + len(",")
	}
	if whole < len(content) && !isArtifact(content[whole]) {
		text, room := content[whole].Text, budget-textOverhead-len(",")
		if trusted {
			text = prefixWithin(text, room)
		} else {
			text = cutEnvelope(text, room)
		}
		if text != "" {
			kept = append(kept, tool.Text(text))
		}
	}
	return append(kept, tool.Text(marker(max(total-rawSize(kept), 0), ref)))
}

// cutEnvelope gives the beginning of the envelope that text begins with, closed,
// within budget. Text outside an envelope is an earlier marker and is left out.
func cutEnvelope(text string, budget int) string {
	nonce, opening := openNonce(text)
	end := "\n" + closing(nonce)
	body, _, _ := strings.Cut(text[opening:], end)
	body = prefixWithin(body, budget-stringCost(text[:opening])-stringCost(end))
	if opening == 0 || body == "" {
		return ""
	}
	return text[:opening] + body + end
}
