package cli

import (
	"errors"

	"github.com/toolbus/toolbus/client"
	"github.com/toolbus/toolbus/subjects"
)

// answerAdvice says what to do about an error of the client.
func answerAdvice(err error) error {
	var field *subjects.FieldError
	var failure *subjects.RPCError
	var refusal *client.RefusalError
	var command *client.CommandRefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &field):
		return wrongUse("%w", err)
	case errors.As(err, &failure) && failure.Code == subjects.CodeNotFound:
		return advise(err, "see `toolbus invocations list`; another tenant is chosen with --tenant")
	case errors.As(err, &refusal) && refusal.Code == subjects.RefusedUnknownSession:
		return advise(err, "open a session with `toolbus session open`, or leave --session out")
	case errors.As(err, &command):
		return advise(err, "it was decided before, has expired, or is not of this tenant: `toolbus approvals list`, `toolbus uncertain list`")
	case errors.Is(err, client.ErrUnavailable):
		return advise(err, "is a gatekeeper running? `toolbus doctor` looks at the engines")
	case errors.Is(err, client.ErrPermission):
		return advise(err, "the NATS identity belongs to another tenant or actor: see --tenant and --actor")
	}
	return err
}
