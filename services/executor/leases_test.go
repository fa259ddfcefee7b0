package executor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/registry"
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

// A stop message makes the executor look; whether the run is over, the row says.
func TestLook(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]bool{"a true one": true, "a forged one": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 8)
			l := newLeases(&ringer{verdict: pipeline.HeartbeatVerdict{Held: true, RunOver: over}, asked: asked}, time.Hour)
			c := &pipeline.Claim{Invocation: pipeline.Invocation{ID: tool.NewID(), TenantID: "acme", RunID: tool.NewID(), DeadlineAt: time.Now().Add(time.Hour)}, Now: time.Now()}
			call := l.hold(t.Context(), c, l.now())
			ctx, stop := context.WithCancel(t.Context())
			kept := make(chan struct{})
			go func() { defer close(kept); l.keep(ctx) }()
			l.look("rival", c.RunID) // not a call of ours
			l.look("acme", c.RunID)
			<-asked
			stop()
			<-kept
			if cause := context.Cause(call); errors.Is(cause, pipeline.ErrRunOver) != over {
				t.Errorf("the call's context ended with %v", cause)
			}
			if len(asked) > 0 {
				t.Error("asked for a call that is not held")
			}
			l.release(c.ID)
		})
	}
}

type ringer struct {
	Store
	verdict pipeline.HeartbeatVerdict
	asked   chan struct{}
}

func (r *ringer) Heartbeat(_ context.Context, beats []pipeline.Heartbeat, _ time.Duration) ([]pipeline.HeartbeatVerdict, error) {
	r.asked <- struct{}{}
	return []pipeline.HeartbeatVerdict{r.verdict}[:len(beats)], nil
}

// A run that is over does not keep the executor from the session with which it
// ends the call.
func TestSessionOfARunThatIsOver(t *testing.T) {
	t.Parallel()
	store := &slowSessions{}
	s := &Service{o: Options{Lease: time.Minute}, sessions: pipeline.NewSessionCache(store), work: t.Context()}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(pipeline.ErrRunOver)
	for held, want := range map[bool]error{true: nil, false: pipeline.ErrRunOver} {
		c := &pipeline.Claim{Invocation: pipeline.Invocation{TenantID: "acme", SessionID: tool.NewID()}, StillHeld: func() bool { return held }}
		session, err := s.session(ctx, c)
		if !errors.Is(err, want) || (want == nil) != (session != nil) {
			t.Errorf("held %v: %v, %v", held, session, err)
		}
	}
}

type slowSessions struct{ Store }

func (*slowSessions) Session(ctx context.Context, _ string, _ tool.ID, _ func(string) *pipeline.Catalog) (*pipeline.Session, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	pin, err := registry.NewPin(nil)
	return &pipeline.Session{Catalog: pipeline.NewCatalog(pin)}, err
}
