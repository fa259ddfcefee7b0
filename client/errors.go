package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolbus/toolbus/subjects"
)

// Errors that any operation may wrap.
var (
	// ErrClosed says that the client, or the run, was closed, or that the server
	// ended the connection for good.
	ErrClosed = errors.New("client is closed")
	// ErrUnavailable says that nobody answered in time. What was sent may still
	// take effect; sending the same again is harmless. A subject of a tenant that
	// this identity does not serve looks the same from here when accounts keep
	// the tenants apart.
	ErrUnavailable = errors.New("nobody answers; the service may be away, or this identity may not act for the tenant")
	// ErrPermission says that the server refused the subject to this identity:
	// another tenant, another actor, or an inbox that is not its own.
	ErrPermission = errors.New("refused by the permissions of NATS")
	// ErrNotAccepted says that a stream, or whatever answered in its place, did
	// not store the message.
	ErrNotAccepted = errors.New("message was not accepted")
	// ErrTooLarge says that a proposal exceeds 768 KiB, or what the server
	// carries; nothing was sent. Split the step.
	ErrTooLarge = errors.New("proposal is too large")
	// ErrNoActor says that a command needs [Options.Actor].
	ErrNoActor = errors.New("commands need an actor")
	// ErrStepOpen says that the same [Run] has this step under way already; use
	// [OpenStep.Repropose].
	ErrStepOpen = errors.New("step is under way")
	// ErrCorrupt says that the bytes of an artifact are not those that were
	// stored.
	ErrCorrupt = errors.New("artifact is corrupt")
)

// RefusalError is how calls end that became no invocation (the contract,
// section 3, "Refusal").
type RefusalError struct {
	// Code is stable, such as [subjects.RefusedSessionClosed].
	Code subjects.RefusalCode
	// CallIDs are the calls that are refused; empty means every call of the
	// proposal that has no outcome.
	CallIDs []string
	// Message names fields and rules, never values.
	Message string
}

// Error gives code, calls and message.
func (e *RefusalError) Error() string {
	if len(e.CallIDs) == 0 {
		return fmt.Sprintf("proposal refused: %s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("calls %s refused: %s: %s", strings.Join(e.CallIDs, ", "), e.Code, e.Message)
}

// CommandRefusedError is how a command ends that changed nothing.
type CommandRefusedError struct {
	CommandID string
	Kind      subjects.CommandKind
	// Code is stable and says why.
	Code string
}

// Error gives kind and code.
func (e *CommandRefusedError) Error() string {
	return fmt.Sprintf("command %s refused: %s", e.Kind, e.Code)
}

// UnsettledError says that the client stopped waiting before it knew what became
// of a command. It may take effect yet: ask [Client.CommandGet], or send the same
// command with the same id again with [Client.Do].
type UnsettledError struct {
	CommandID string
	Kind      subjects.CommandKind
	// Err is why the client stopped waiting.
	Err error
}

// Error gives the command and the cause.
func (e *UnsettledError) Error() string {
	return fmt.Sprintf("command %s %s is not settled: %v", e.Kind, e.CommandID, e.Err)
}

// Unwrap gives the cause.
func (e *UnsettledError) Unwrap() error { return e.Err }
