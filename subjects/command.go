package subjects

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/toolbus/toolbus/tool"
)

// CommandKind is the kind token of a command subject.
type CommandKind string

// The kinds. Runtimes may publish the first four, operators the others.
const (
	CommandCancel       CommandKind = "cancel"
	CommandResume       CommandKind = "resume"
	CommandSessionClose CommandKind = "session_close"
	CommandRunEnd       CommandKind = "run_end"
	CommandApproval     CommandKind = "approval"
	CommandReview       CommandKind = "review"
	CommandRevoke       CommandKind = "revoke"
)

// RuntimeCommands lists the kinds that a runtime may publish.
func RuntimeCommands() []CommandKind {
	return []CommandKind{CommandCancel, CommandResume, CommandSessionClose, CommandRunEnd}
}

// OperatorCommands lists the kinds that an operator may publish.
func OperatorCommands() []CommandKind {
	return []CommandKind{CommandApproval, CommandReview, CommandRevoke}
}

// Valid reports whether k is in the closed set.
func (k CommandKind) Valid() bool {
	return slices.Contains(RuntimeCommands(), k) || slices.Contains(OperatorCommands(), k)
}

// Command is the payload of a command subject: the body of one kind. The actor
// is in the subject, never in the body. command_id has the grammar of a call id
// and is unique in its tenant.
//
//sumtype:decl
type Command interface {
	// Kind is the token of the subject.
	Kind() CommandKind
	// ID is the command_id.
	ID() string
	check() *FieldError
}

// Cancel ends a run and what is open in it.
type Cancel struct {
	V         Version `json:"v"`
	CommandID string  `json:"command_id"`
	RunID     tool.ID `json:"run_id"`
	Reason    string  `json:"reason,omitempty"`
}

// Resume answers a suspended call: with content for a question, with the
// child's result for a delegation. Exactly one of the two is set.
type Resume struct {
	V            Version         `json:"v"`
	CommandID    string          `json:"command_id"`
	InvocationID tool.ID         `json:"invocation_id"`
	Content      json.RawMessage `json:"content,omitempty"`
	ChildResult  json.RawMessage `json:"child_result,omitempty"`
}

// SessionClose closes a session.
type SessionClose struct {
	V         Version `json:"v"`
	CommandID string  `json:"command_id"`
	SessionID tool.ID `json:"session_id"`
}

// RunEnd says that the runtime is done with a run.
type RunEnd struct {
	V         Version `json:"v"`
	CommandID string  `json:"command_id"`
	RunID     tool.ID `json:"run_id"`
}

// Decision is what an approver said.
type Decision string

// The decisions.
const (
	DecisionApprove Decision = "approve"
	DecisionDeny    Decision = "deny"
)

// Approval decides one approval.
type Approval struct {
	V          Version  `json:"v"`
	CommandID  string   `json:"command_id"`
	ApprovalID tool.ID  `json:"approval_id"`
	Decision   Decision `json:"decision"`
	Comment    string   `json:"comment,omitempty"`
}

// ReviewVerdict is what a reviewer found out about an uncertain call.
type ReviewVerdict string

// The review verdicts.
const (
	Happened      ReviewVerdict = "happened"
	DidNotHappen  ReviewVerdict = "did_not_happen"
	ReviewUnknown ReviewVerdict = "unknown"
)

// Review records what is known of an uncertain call; it changes no outcome.
type Review struct {
	V            Version       `json:"v"`
	CommandID    string        `json:"command_id"`
	InvocationID tool.ID       `json:"invocation_id"`
	Verdict      ReviewVerdict `json:"verdict"`
	Comment      string        `json:"comment,omitempty"`
}

// Revoke takes scopes from a principal.
type Revoke struct {
	V         Version  `json:"v"`
	CommandID string   `json:"command_id"`
	Principal string   `json:"principal"`
	Scopes    []string `json:"scopes"`
}

// Kind implements [Command].
func (*Cancel) Kind() CommandKind { return CommandCancel }

// Kind implements [Command].
func (*Resume) Kind() CommandKind { return CommandResume }

// Kind implements [Command].
func (*SessionClose) Kind() CommandKind { return CommandSessionClose }

// Kind implements [Command].
func (*RunEnd) Kind() CommandKind { return CommandRunEnd }

// Kind implements [Command].
func (*Approval) Kind() CommandKind { return CommandApproval }

// Kind implements [Command].
func (*Review) Kind() CommandKind { return CommandReview }

// Kind implements [Command].
func (*Revoke) Kind() CommandKind { return CommandRevoke }

// ID implements [Command].
func (c *Cancel) ID() string { return c.CommandID }

// ID implements [Command].
func (c *Resume) ID() string { return c.CommandID }

// ID implements [Command].
func (c *SessionClose) ID() string { return c.CommandID }

// ID implements [Command].
func (c *RunEnd) ID() string { return c.CommandID }

// ID implements [Command].
func (c *Approval) ID() string { return c.CommandID }

// ID implements [Command].
func (c *Review) ID() string { return c.CommandID }

// ID implements [Command].
func (c *Revoke) ID() string { return c.CommandID }

// DecodeCommand reads the body of a command of the given kind, which is the one
// in the subject. Errors are [*FieldError].
func DecodeCommand(kind CommandKind, data []byte) (Command, error) {
	c := newCommand(kind)
	if c == nil {
		return nil, &FieldError{Rule: "must be of a known kind"}
	}
	if len(data) > MaxMessageBytes {
		return nil, &FieldError{Rule: "must be at most 512 KiB"}
	}
	if err := Decode(data, c); err != nil {
		return nil, err
	}
	if err := checkCommand(c); err != nil {
		return nil, err
	}
	return c, nil
}

// EncodeCommand checks a command as [DecodeCommand] would and writes its body.
func EncodeCommand(c Command) ([]byte, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, &FieldError{Rule: "must hold valid JSON"}
	}
	if _, err := DecodeCommand(c.Kind(), data); err != nil {
		return nil, err
	}
	return data, nil
}

// SketchCommand reads the command_id of a body that does not decode, empty when
// there is none, so that its refusal can be settled.
func SketchCommand(data []byte) string {
	id := ""
	_ = members(data[skipSpace(data, 0):], "", func(name string, value []byte) error {
		if text, ok := unquote(value); ok && name == "command_id" && ValidCallID(text) {
			id = text
		}
		return nil
	})
	return id
}

func newCommand(kind CommandKind) Command {
	switch kind {
	case CommandCancel:
		return &Cancel{}
	case CommandResume:
		return &Resume{}
	case CommandSessionClose:
		return &SessionClose{}
	case CommandRunEnd:
		return &RunEnd{}
	case CommandApproval:
		return &Approval{}
	case CommandReview:
		return &Review{}
	case CommandRevoke:
		return &Revoke{}
	}
	return nil
}

func checkCommand(c Command) error {
	if !ValidCallID(c.ID()) {
		return &FieldError{"command_id", identRule}
	}
	if err := c.check(); err != nil {
		return err
	}
	return nil
}

func (c *Cancel) check() *FieldError { return checkText("reason", c.Reason) }

func (c *Resume) check() *FieldError {
	if (c.Content == nil) == (c.ChildResult == nil) {
		return &FieldError{"content", "must stand exactly when child_result does not"}
	}
	return nil
}

func (c *SessionClose) check() *FieldError { return nil }

func (c *RunEnd) check() *FieldError { return nil }

func (c *Approval) check() *FieldError {
	if c.Decision != DecisionApprove && c.Decision != DecisionDeny {
		return &FieldError{"decision", "must be approve or deny"}
	}
	return checkText("comment", c.Comment)
}

func (c *Review) check() *FieldError {
	switch c.Verdict {
	case Happened, DidNotHappen, ReviewUnknown:
		return checkText("comment", c.Comment)
	}
	return &FieldError{"verdict", "must be happened, did_not_happen or unknown"}
}

func (c *Revoke) check() *FieldError {
	if !ValidToken(c.Principal) {
		return &FieldError{"principal", tokenRule}
	}
	if len(c.Scopes) == 0 || len(c.Scopes) > maxIdent {
		return &FieldError{"scopes", "must hold 1 to 128 scopes"}
	}
	for i, scope := range c.Scopes {
		if scope != "*" && !ValidCallID(scope) {
			return &FieldError{"scopes[" + strconv.Itoa(i) + "]", identRule}
		}
	}
	return nil
}

func checkText(field, text string) *FieldError {
	if len(text) > maxComment {
		return &FieldError{field, "must be at most 4096 bytes"}
	}
	return nil
}
