package subjects

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/toolbus/toolbus/tool"
)

// The bounds of a proposal (the contract, section 3).
const (
	// MaxProposalBytes bounds the payload: 768 KiB.
	MaxProposalBytes = 768 << 10
	// MaxCalls bounds the calls of one step.
	MaxCalls = 128
)

// Proposal is one model step, whole: every call that the model asked for.
type Proposal struct {
	V          Version `json:"v"`
	SessionID  tool.ID `json:"session_id"`
	RunID      tool.ID `json:"run_id"`
	StepNumber int     `json:"step_number"`
	// N is 0 at first and raised for a deliberate re-proposal.
	N int `json:"n,omitempty"`
	// DeadlineAt is optional; zero leaves the run's own deadline.
	DeadlineAt time.Time `json:"deadline_at,omitzero"`
	// OriginTrust is [tool.ExternalUntrusted] when the sender said nothing.
	OriginTrust tool.Trust `json:"origin_trust,omitempty"`
	Calls       []Call     `json:"calls"`
}

// Call is one call of a proposal.
type Call struct {
	CallID string `json:"call_id"`
	// Name is a registry name or an alias.
	Name string `json:"name"`
	// Arguments is a JSON object, byte for byte as it was sent.
	Arguments json.RawMessage `json:"arguments"`
	// ArgumentTrust labels top-level arguments; one that is absent is
	// [tool.ExternalUntrusted].
	ArgumentTrust map[string]tool.Trust `json:"argument_trust,omitempty"`
}

// ProposalDecoder decodes proposals under the limits of one sender. The zero
// value is what a runtime without privileges gets. It is a value, safe to share.
type ProposalDecoder struct {
	// MaxTrust is the highest label that may be claimed; empty means [tool.User].
	MaxTrust tool.Trust
	// AllowBridge admits call ids with [BridgePrefix].
	AllowBridge bool
	// Run, unless zero, is the run in the subject, which the body must repeat.
	Run tool.ID
}

// Decode reads and checks a proposal. Every error is a [*FieldError].
func (d ProposalDecoder) Decode(data []byte) (Proposal, error) {
	if len(data) > MaxProposalBytes {
		return Proposal{}, &FieldError{Rule: "must be at most 768 KiB"}
	}
	var p Proposal
	if err := Decode(data, &p); err != nil {
		return Proposal{}, err
	}
	if p.OriginTrust == "" {
		p.OriginTrust = tool.ExternalUntrusted
	}
	if err := d.check(&p); err != nil {
		return Proposal{}, err
	}
	return p, nil
}

// Encode checks a proposal as [ProposalDecoder.Decode] would and writes it. A
// client says with it what is wrong before it publishes.
func (d ProposalDecoder) Encode(p Proposal) ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, &FieldError{Rule: "must have arguments of valid JSON"}
	}
	if _, err := d.Decode(data); err != nil {
		return nil, err
	}
	return data, nil
}

func (d ProposalDecoder) check(p *Proposal) error {
	switch {
	case p.SessionID.IsZero():
		return &FieldError{"session_id", "must not be the zero UUID"}
	case p.RunID.IsZero():
		return &FieldError{"run_id", "must not be the zero UUID"}
	case !d.Run.IsZero() && d.Run != p.RunID:
		return &FieldError{"run_id", "must be the run of the subject"}
	case p.StepNumber < 0 || p.StepNumber > maxInt32:
		return &FieldError{"step_number", "must be from 0 to 2147483647"}
	case p.N < 0 || p.N > maxInt32:
		return &FieldError{"n", "must be from 0 to 2147483647"}
	case len(p.Calls) == 0 || len(p.Calls) > MaxCalls:
		return &FieldError{"calls", "must hold 1 to 128 calls"}
	}
	if err := d.checkTrust(p.OriginTrust, "origin_trust"); err != nil {
		return err
	}
	seen := make(map[string]struct{}, len(p.Calls))
	for i := range p.Calls {
		c := &p.Calls[i]
		at := "calls[" + strconv.Itoa(i) + "]."
		if err := d.checkCall(c, at); err != nil {
			return err
		}
		if _, twice := seen[c.CallID]; twice {
			return &FieldError{at + "call_id", "must be unique in the step"}
		}
		seen[c.CallID] = struct{}{}
	}
	return nil
}

func (d ProposalDecoder) checkCall(c *Call, at string) error {
	switch {
	case !ValidCallID(c.CallID):
		return &FieldError{at + "call_id", identRule}
	case !d.AllowBridge && len(c.CallID) >= len(BridgePrefix) && c.CallID[:len(BridgePrefix)] == BridgePrefix:
		return &FieldError{at + "call_id", "must not begin with bridge:"}
	case !validToolName(c.Name):
		return &FieldError{at + "name", "must be 1 to 128 of A-Z a-z 0-9 . _ -"}
	}
	if c.Arguments[0] != '{' {
		return &FieldError{at + "arguments", "must be an object"}
	}
	if len(c.ArgumentTrust) == 0 {
		return nil
	}
	names := make(map[string]struct{}, len(c.ArgumentTrust))
	err := members(c.Arguments, at+"arguments", func(name string, _ []byte) error {
		names[name] = struct{}{}
		return nil
	})
	if err != nil {
		return err
	}
	for name, trust := range c.ArgumentTrust {
		if _, ok := names[name]; !ok {
			return &FieldError{at + "argument_trust", "must name top-level arguments only"}
		}
		if err := d.checkTrust(trust, at+"argument_trust"); err != nil {
			return err
		}
	}
	return nil
}

func (d ProposalDecoder) checkTrust(t tool.Trust, field string) error {
	ceiling := d.MaxTrust
	if ceiling == "" {
		ceiling = tool.User
	}
	if !t.Valid() {
		return &FieldError{field, "must be a trust label"}
	}
	if t.Rank() > ceiling.Rank() {
		return &FieldError{field, "must not claim more than the sender may"}
	}
	return nil
}

// Sketch is what can be read of a proposal that does not decode: enough to
// address its refusal. Missing parts are zero.
type Sketch struct {
	RunID      tool.ID
	StepNumber int
	N          int
	CallIDs    []string
}

// SketchProposal reads what it can of a broken proposal: everything in front of
// the first syntax error, at most [MaxCalls] call ids, only such as obey the
// grammar. It looks at the first 768 KiB and never fails.
func SketchProposal(data []byte) Sketch {
	data = data[:min(len(data), MaxProposalBytes)]
	var s Sketch
	// The walkers are safe on broken JSON: they end early or give nonsense,
	// which the grammar of each field filters.
	_ = members(data[skipSpace(data, 0):], "", func(name string, value []byte) error {
		switch name {
		case "run_id":
			text, _ := unquote(value)
			s.RunID, _ = tool.ParseID(text)
		case "step_number":
			s.StepNumber = smallInt(value)
		case "n":
			s.N = smallInt(value)
		case "calls":
			_ = elements(value, "", func(_ int, call []byte) error { return s.addCall(call) })
		}
		return nil
	})
	return s
}

var errEnough = errors.New("enough calls")

func (s *Sketch) addCall(call []byte) error {
	if len(s.CallIDs) == MaxCalls {
		return errEnough
	}
	_ = members(call, "", func(name string, value []byte) error {
		if id, ok := unquote(value); ok && name == "call_id" && ValidCallID(id) {
			s.CallIDs = append(s.CallIDs, id)
			return errEnough
		}
		return nil
	})
	return nil
}

func smallInt(raw []byte) int {
	n, err := strconv.ParseInt(string(raw), 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int(n)
}
