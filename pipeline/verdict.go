package pipeline

import "github.com/toolbus/toolbus/tool"

// Verdict is what recovery does with a running call whose lease has ended.
type Verdict string

// The verdicts.
const (
	// RunAgain lets the next claim take the call over with a raised attempt and
	// the same idempotency key.
	RunAgain Verdict = "run_again"
	// GiveUncertain ends the call as uncertain: it may have had its effect, and
	// nobody can tell.
	GiveUncertain Verdict = "uncertain"
	// GiveUp ends the call as failed, with the reason beside it.
	GiveUp Verdict = "give_up"
)

// Expired is all that the recovery verdict may look at: facts of a row whose
// lease has ended, read from the row.
type Expired struct {
	Class      tool.Idempotency
	EffectSent bool
	Attempt    int
	// MaximumAttempts bounds how often a call that keeps losing its worker is
	// tried; reached means no further attempt.
	MaximumAttempts int
	DeadlinePassed  bool
	// RunOver says that the run was cancelled, failed or ended.
	RunOver bool
}

// Recover is the recovery table of the specification ("The effect watermark"),
// with the ends that keep it finite: a deadline, a run that is over, a bound on
// attempts. The second result is the reason code of a call that ends.
//
// A non-idempotent call whose watermark is set is uncertain whatever else is
// true: every other word would be a claim that nobody can support.
func Recover(e Expired) (Verdict, string) {
	if e.Class == tool.NonIdempotent && e.EffectSent {
		return GiveUncertain, "tool.outcome_unknown"
	}
	switch {
	case e.RunOver:
		return GiveUp, "tool.run_cancelled"
	case e.DeadlinePassed:
		return GiveUp, "tool.timeout"
	case e.Attempt >= e.MaximumAttempts:
		return GiveUp, "tool.internal"
	default:
		return RunAgain, ""
	}
}
