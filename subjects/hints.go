package subjects

import (
	"strconv"

	"github.com/toolbus/toolbus/tool"
)

// MaxHints bounds the hints of one execute message.
const MaxHints = 16

// Hints is the payload of an execute subject: where something may have become
// claimable, for one tenant and target. A hint lets its consumer claim at most
// one call; the claim picks it, so a forged, empty, repeated or reordered
// message changes nothing.
type Hints struct {
	V     Version `json:"v"`
	Hints []Hint  `json:"hints"`
}

// Hint names a batch or a single call: exactly one field is set.
type Hint struct {
	Batch *tool.ID `json:"batch,omitempty"`
	Call  *tool.ID `json:"call,omitempty"`
}

// HintBatch makes a hint for a batch.
func HintBatch(batch tool.ID) Hint { return Hint{Batch: &batch} }

// HintCall makes a hint for a single call, by its invocation id.
func HintCall(invocation tool.ID) Hint { return Hint{Call: &invocation} }

// DecodeHints reads an execute message. Errors are [*FieldError].
func DecodeHints(data []byte) (Hints, error) {
	var h Hints
	if err := Decode(data, &h); err != nil {
		return Hints{}, err
	}
	if len(h.Hints) == 0 || len(h.Hints) > MaxHints {
		return Hints{}, &FieldError{"hints", "must hold 1 to 16 hints"}
	}
	for i, hint := range h.Hints {
		if (hint.Batch == nil) == (hint.Call == nil) {
			return Hints{}, &FieldError{"hints[" + strconv.Itoa(i) + "]", "must name either a batch or a call"}
		}
	}
	return h, nil
}

// AppendHints appends an execute message to b without allocating. At most
// [MaxHints] hints belong in one message; the caller splits.
func AppendHints(b []byte, hints []Hint) []byte {
	b = append(b, `{"v":1,"hints":[`...)
	for i, hint := range hints {
		if i > 0 {
			b = append(b, ',')
		}
		if hint.Batch != nil {
			b = append(b, `{"batch":`...)
			b = appendID(b, *hint.Batch)
		} else if hint.Call != nil {
			b = append(b, `{"call":`...)
			b = appendID(b, *hint.Call)
		}
		b = append(b, '}')
	}
	return append(b, `]}`...)
}
