package executor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

// beater is a store that only answers heartbeats.
type beater struct {
	Store
	verdict pipeline.HeartbeatVerdict
	err     error
	beats   int
}

func (b *beater) Heartbeat(_ context.Context, beats []pipeline.Heartbeat, _ time.Duration) ([]pipeline.HeartbeatVerdict, error) {
	b.beats += len(beats)
	out := make([]pipeline.HeartbeatVerdict, len(beats))
	for i := range out {
		out[i] = b.verdict
	}
	return out, b.err
}

func TestLeases(t *testing.T) {
	t.Parallel()
	const lease = 30 * time.Second
	for name, tt := range map[string]struct {
		verdict pipeline.HeartbeatVerdict
		err     error
		beatAt  time.Duration // when one beat is made
		lookAt  time.Duration // when the lease's clock is looked at
		beats   int
		cause   error
		held    bool
	}{
		"kept":                     {verdict: pipeline.HeartbeatVerdict{Held: true}, beatAt: 20 * time.Second, lookAt: 40 * time.Second, beats: 1, held: true},
		"lost":                     {beatAt: 10 * time.Second, lookAt: 11 * time.Second, beats: 1, cause: pipeline.ErrCut, held: true},
		"run over":                 {verdict: pipeline.HeartbeatVerdict{Held: true, RunOver: true}, beatAt: 10 * time.Second, lookAt: 11 * time.Second, beats: 1, cause: pipeline.ErrRunOver, held: true},
		"database away":            {err: errors.New("away"), beatAt: 20 * time.Second, lookAt: 24 * time.Second, beats: 1, held: true},
		"database away too long":   {err: errors.New("away"), beatAt: 20 * time.Second, lookAt: 26 * time.Second, beats: 1, cause: pipeline.ErrCut},
		"deaf past its deadline":   {verdict: pipeline.HeartbeatVerdict{Held: true}, beatAt: 91 * time.Second, lookAt: 92 * time.Second, cause: pipeline.ErrCut},
		"slow within its deadline": {verdict: pipeline.HeartbeatVerdict{Held: true}, beatAt: 24 * time.Second, lookAt: 48 * time.Second, beats: 1, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &beater{verdict: tt.verdict, err: tt.err}
			l := newLeases(b, lease)
			now := time.Duration(0)
			l.now = func() time.Duration { return now }
			start := time.Now()
			c := &pipeline.Claim{Invocation: pipeline.Invocation{ID: tool.NewID(), DeadlineAt: start.Add(time.Minute)}, Now: start}
			ctx := l.hold(t.Context(), c, 0)
			now = tt.beatAt
			l.beat(t.Context())
			now = tt.lookAt
			l.cutLost()
			if cause := context.Cause(ctx); !errors.Is(cause, tt.cause) || (tt.cause == nil && cause != nil) {
				t.Errorf("the call's context ended with %v, want %v", cause, tt.cause)
			}
			if b.beats != tt.beats || c.StillHeld() != tt.held {
				t.Errorf("%d beats and held %v, want %d and %v", b.beats, c.StillHeld(), tt.beats, tt.held)
			}
			l.release(c.ID)
		})
	}
}
