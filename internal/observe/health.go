package observe

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// How often a check is made, how long one may take, and after how long without
// a result it counts as failing.
const (
	checkInterval = 2 * time.Second
	checkTimeout  = 5 * time.Second
	checkStale    = 20 * time.Second
)

// Check says what is wrong, or nil. The error goes to the log only.
type Check func(ctx context.Context) error

// Failing is a check that does not pass.
type Failing struct {
	Name string `json:"name"`
	// Since is when it began to fail.
	Since time.Time `json:"since"`
}

// Checks makes named checks again and again and remembers how they last went.
// It is a service: Run works until its context ends. Safe for concurrent use.
type Checks struct {
	log   *slog.Logger
	mu    sync.Mutex
	byKey map[string]*checkState
	ready chan struct{}
	began bool
}

type checkState struct {
	check  Check
	err    error
	since  time.Time
	lastAt time.Time
	told   bool // the log was told that it fails
}

// errNotChecked is the state of a check before its first result.
var errNotChecked = errors.New("not checked yet")

// NewChecks makes an empty set; log is told when a check begins or ends to
// fail.
func NewChecks(log *slog.Logger) *Checks {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Checks{log: log, byKey: map[string]*checkState{}, ready: make(chan struct{})}
}

// ErrChecks says that a check cannot be added: its name is taken, or the checks
// run already.
var ErrChecks = errors.New("check cannot be added")

// Add adds a check; it counts as failing until its first result. It comes before
// Run.
func (c *Checks) Add(name string, check Check) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.byKey[name]; taken || c.began {
		return ErrChecks
	}
	c.byKey[name] = &checkState{check: check, err: errNotChecked, since: time.Now(), lastAt: time.Now()}
	return nil
}

// Ready is closed once the checks are being made.
func (c *Checks) Ready() <-chan struct{} { return c.ready }

// Run makes the checks until ctx ends, each on its own so that one that hangs
// keeps no other waiting. It is called once and returns nil.
func (c *Checks) Run(ctx context.Context) error {
	c.mu.Lock()
	c.began = true
	all := maps.Clone(c.byKey)
	c.mu.Unlock()
	var running sync.WaitGroup
	for name, state := range all {
		running.Go(func() { c.repeat(ctx, name, state) })
	}
	close(c.ready)
	running.Wait()
	return nil
}

func (c *Checks) repeat(ctx context.Context, name string, state *checkState) {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, checkTimeout)
		err := state.check(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		c.record(ctx, name, state, err)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Checks) record(ctx context.Context, name string, state *checkState, err error) {
	c.mu.Lock()
	before := state.err
	state.lastAt = time.Now()
	if (before == nil) != (err == nil) {
		state.since = state.lastAt
	}
	state.err = err
	// What cannot be known yet at the first look is no news.
	news := err != nil && !state.told && !errors.Is(before, errNotChecked)
	recovered := err == nil && state.told
	state.told = (state.told || news) && err != nil
	c.mu.Unlock()
	switch {
	case news:
		c.log.WarnContext(ctx, "health check fails", "check", name, "cause", err.Error())
	case recovered:
		c.log.InfoContext(ctx, "health check passes", "check", name)
	}
}

// Failing lists the checks that do not pass, by name; a check without a fresh
// result does not.
func (c *Checks) Failing() []Failing {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	failing := []Failing{}
	for _, name := range slices.Sorted(maps.Keys(c.byKey)) {
		state := c.byKey[name]
		switch {
		case state.err != nil:
			failing = append(failing, Failing{Name: name, Since: state.since.UTC()})
		case now.Sub(state.lastAt) > checkStale:
			failing = append(failing, Failing{Name: name, Since: state.lastAt.UTC()})
		}
	}
	return failing
}

// Live answers that the process lives.
func (c *Checks) Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeHealth(w, http.StatusOK, map[string]any{"alive": true})
	})
}

// Readiness answers 200 while every check passes, else 503; the body lists the
// failing checks by name and since when, and nothing else of what went wrong.
func (c *Checks) Readiness() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		failing, status := c.Failing(), http.StatusOK
		if len(failing) > 0 {
			status = http.StatusServiceUnavailable
		}
		writeHealth(w, status, map[string]any{"ready": len(failing) == 0, "failing": failing})
	})
}

func writeHealth(w http.ResponseWriter, status int, body map[string]any) {
	data, err := json.Marshal(body)
	if err != nil { // words, booleans and times always marshal
		status, data = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}
