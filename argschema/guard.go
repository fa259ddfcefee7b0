package argschema

import (
	"errors"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// guard runs validations. Those of a foreign schema run one at a time, each in a
// goroutine that the caller waits for; a validation has no way to be told to
// stop, so one that outlives the limit is left behind and the schema never
// starts another: at most one goroutine per schema is lost, until it ends.
type guard struct {
	validate   func(v any) error
	entry      *jsonschema.Schema
	multiplies bool
	limit      time.Duration

	// turn holds one token; who has taken it may touch quarantined.
	turn        chan struct{}
	quarantined bool
}

func newGuard(entry *jsonschema.Schema, multiplies bool, limit time.Duration) guard {
	g := guard{validate: entry.Validate, entry: entry, multiplies: multiplies, limit: limit, turn: make(chan struct{}, 1)}
	g.turn <- struct{}{}
	return g
}

// run validates v. It returns [ErrQuarantined], an [*ArgumentError] or nil.
func (g *guard) run(v any) error {
	if g.multiplies && !affordable(g.entry, v) {
		return &ArgumentError{Rule: "schema: must not need so much work to check"}
	}
	if g.limit == 0 {
		return check(g.validate, v)
	}
	<-g.turn
	defer func() { g.turn <- struct{}{} }()
	if g.quarantined {
		return ErrQuarantined
	}
	done := make(chan error, 1)
	go func() { done <- check(g.validate, v) }()
	expired := time.NewTimer(g.limit)
	defer expired.Stop()
	var err error
	select {
	case err = <-done:
	case <-expired.C:
		err = ErrQuarantined
	}
	g.quarantined = errors.Is(err, ErrQuarantined)
	return err
}

// check validates v. A schema that breaks the library must not end the process.
func check(validate func(any) error, v any) (err error) {
	defer func() {
		if recover() != nil {
			err = ErrQuarantined
		}
	}()
	return verdict(validate(v))
}
