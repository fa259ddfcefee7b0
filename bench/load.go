package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

const (
	tenant          = "bench"
	maximumInFlight = 2000
	// runSteps is after how many steps a driver begins a new run.
	runSteps = 20
)

// load keeps a number of proposals in flight: each driver proposes a step, awaits
// the outcomes of its calls, and proposes the next.
type load struct {
	bus     *bus.Bus
	session tool.ID
	tool    string
	drivers int
	calls   int // of one proposal
	text    string
	number  atomic.Int64

	mu   sync.Mutex
	runs map[string]chan<- error // by the text of the run id

	measuring atomic.Bool
}

// measured is what a load came to.
type measured struct {
	calls     int
	window    time.Duration
	latencies []time.Duration // of steps
}

func (m measured) rate() float64 { return float64(m.calls) / m.window.Seconds() }

// percentile gives the p-th, 0 < p < 1, in milliseconds.
func (m measured) percentile(p float64) float64 {
	if len(m.latencies) == 0 {
		return 0
	}
	slices.Sort(m.latencies)
	return float64(m.latencies[int(p*float64(len(m.latencies)))].Nanoseconds()) / 1e6
}

func openLoad(ctx context.Context, b *bus.Bus, name string, drivers, calls int) (*load, error) {
	subject, err := subjects.RPC(subjects.ServiceGatekeeper, subjects.VerbSessionOpen, tenant)
	if err != nil {
		return nil, err
	}
	var opened subjects.SessionOpenResponse
	err = b.Request(ctx, subject, subjects.SessionOpenRequest{
		RequestID: tool.NewID().String(), Principal: tool.Principal{ID: "bench", Interactive: true},
		Scopes: []string{}, Agent: subjects.AgentProfile{ID: "bench", Tools: []string{"*"}},
	}, &opened)
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	return &load{
		bus: b, session: opened.SessionID, tool: name, drivers: drivers, calls: calls,
		text: strings.Repeat("x", 250), runs: map[string]chan<- error{},
	}, nil
}

// run warms up, measures for the window, and calls begin and end at its edges.
func (l *load) run(ctx context.Context, warm, window time.Duration, begin, end func()) (measured, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	outcomes, err := l.bus.Listen(ctx, "toolbus.outcome."+tenant+".*")
	if err != nil {
		return measured{}, err
	}
	var listening, driving sync.WaitGroup
	listening.Go(func() { outcomes.Run(ctx, l.outcome) })
	defer listening.Wait()
	results, failed := make([]measured, l.drivers), make(chan error, l.drivers)
	for i := range l.drivers {
		driving.Go(func() {
			if err := l.drive(ctx, &results[i]); err != nil && ctx.Err() == nil {
				failed <- err
			}
		})
	}
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err = wait(warm)
	begin()
	began := time.Now()
	l.measuring.Store(true)
	if err == nil {
		err = wait(window)
	}
	l.measuring.Store(false)
	total := measured{window: time.Since(began)}
	end()
	stop()
	driving.Wait()
	for _, r := range results {
		total.calls += r.calls
		total.latencies = append(total.latencies, r.latencies...)
	}
	return total, err
}

// drive proposes step after step.
func (l *load) drive(ctx context.Context, m *measured) error {
	for ctx.Err() == nil {
		run, done := tool.NewID(), make(chan error, 2*l.calls)
		l.mu.Lock()
		l.runs[run.String()] = done
		l.mu.Unlock()
		err := l.steps(ctx, run, done, m)
		l.mu.Lock()
		delete(l.runs, run.String())
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *load) steps(ctx context.Context, run tool.ID, done <-chan error, m *measured) error {
	subject, err := subjects.Propose(tenant, run)
	if err != nil {
		return err
	}
	for step := 1; step <= runSteps; step++ {
		data, err := json.Marshal(l.proposal(run, step))
		if err != nil {
			return err
		}
		began := time.Now()
		if err := l.bus.Publish(ctx, []subjects.Publication{{Stream: subjects.StreamPropose, Subject: subject, Data: data}})[0]; err != nil {
			return err
		}
		for range l.calls {
			select {
			case err := <-done:
				if err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			case <-time.After(30 * time.Second):
				return fmt.Errorf("no outcome of run %s step %d", run, step)
			}
		}
		if l.measuring.Load() {
			m.calls += l.calls
			m.latencies = append(m.latencies, time.Since(began))
		}
	}
	return nil
}

func (l *load) proposal(run tool.ID, step int) subjects.Proposal {
	p := subjects.Proposal{SessionID: l.session, RunID: run, StepNumber: step, OriginTrust: tool.User}
	for i := range l.calls {
		p.Calls = append(p.Calls, subjects.Call{
			CallID: fmt.Sprintf("call_%d_%d", step, i), Name: l.tool,
			Arguments: fmt.Appendf(nil, `{"text":%q,"number":%d}`, l.text, l.number.Add(1)),
		})
	}
	return p
}

// outcome hands a message to its driver. No repetition is expected: the relay
// sends nothing again that was acknowledged.
func (l *load) outcome(d subjects.Delivery) {
	run := d.Subject[len("toolbus.outcome."+tenant+"."):]
	l.mu.Lock()
	done := l.runs[run]
	l.mu.Unlock()
	if done == nil {
		return
	}
	var result error
	if !bytes.Contains(d.Data, []byte(`"status":"succeeded"`)) {
		result = fmt.Errorf("unexpected answer: %.500s", d.Data)
	}
	select {
	case done <- result:
	default: // a repetition nobody waits for
	}
}
