package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/config"
	"github.com/toolbus/toolbus/internal/observe"
	"github.com/toolbus/toolbus/internal/supervise"
	"github.com/toolbus/toolbus/observer"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/services/telemetry"
	"github.com/toolbus/toolbus/subjects"
)

// stallPatience is how long work may wait, with none of it taken, before the
// process is not ready.
const stallPatience = 30 * time.Second

// Telemetered is a telemetry service that tells where it listens.
type Telemetered interface {
	supervise.Service
	Addr() net.Addr
}

func (n *Node) newTelemetry(ctx context.Context) (supervise.Service, error) {
	tokens, err := n.tokens(ctx, n.o.Config.HTTP.Tokens)
	if err != nil {
		return nil, err
	}
	if err := n.addChecks(); err != nil {
		return nil, err
	}
	s, err := telemetry.New(telemetry.Options{
		Address: n.o.Config.HTTP.Address, Tokens: tokens, Events: eventReader{n.Bus}, Tables: n.Store,
		Metrics: n.metrics, Checks: n.checks, Logger: n.log,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it names itself
	}
	n.http = s
	return s, nil
}

// HTTPAddress gives where the telemetry service of this node listens, once it is
// ready; empty when the node runs none.
func (n *Node) HTTPAddress() string {
	if n.http == nil {
		return ""
	}
	if a := n.http.Addr(); a != nil {
		return a.String()
	}
	return ""
}

func (n *Node) tokens(ctx context.Context, all []config.Token) ([]telemetry.Token, error) {
	resolver := newCredentials(n.o.Config.Credentials, n.o.Getenv)
	var out []telemetry.Token
	for _, t := range all {
		value, err := resolver.configured(ctx, t.CredentialRef)
		if err != nil {
			return nil, fmt.Errorf("http.tokens %s: %w", t.Name, err)
		}
		out = append(out, telemetry.Token{Name: t.Name, Value: value, Role: telemetry.Role(t.Role), Tenants: t.Tenants})
	}
	if !n.o.DevToken.Empty() {
		out = append(out, telemetry.Token{Name: "dev", Value: n.o.DevToken, Role: telemetry.Admin, Tenants: []string{"*"}})
	}
	return out, nil
}

// addChecks says what makes this process unready: an engine that does not
// answer, a permission that was refused, or work that waits and is not taken.
func (n *Node) addChecks() error {
	errs := []error{
		n.checks.Add("database", n.Store.Ping),
		n.checks.Add("nats", func(context.Context) error { return n.Bus.Healthy() }),
		n.checks.Add("lanes", func(context.Context) error {
			if away := n.Store.Away(); away > time.Second {
				return fmt.Errorf("no answer from the database for %s", away.Round(time.Second)) //nolint:err113 // for the log only
			}
			return nil
		}),
		n.checks.Add("consumers", observe.NewProgress(stallPatience, func(context.Context) (observe.Work, error) {
			var w observe.Work
			for _, c := range n.Bus.Stats() {
				w.Pending += c.Pending
				w.Paused = w.Paused || c.Paused
				if c.LastMessage.After(w.Last) {
					w.Last = c.LastMessage
				}
			}
			return w, nil
		})),
	}
	return errors.Join(errs...)
}

// watch shows what only the process knows.
func (n *Node) watch() error {
	return n.metrics.Watch(observe.Process{ //nolint:wrapcheck // it says which metric
		Lanes: func() map[string]observe.Lane {
			out := map[string]observe.Lane{}
			for name, s := range n.Store.Stats() {
				out[name] = observe.Lane{Operations: s[0], Flushes: s[1]}
			}
			return out
		},
		Consumers: func() []observe.Consumer {
			var out []observe.Consumer
			for _, c := range n.Bus.Stats() {
				out = append(out, observe.Consumer{Name: c.Durable, Pending: c.Pending, LastFetch: c.LastMessage})
			}
			return out
		},
		LastClaim:  n.lastClaim,
		Reconnects: n.Bus.Reconnects,
	})
}

// lastClaim gives when this node's executor last had a claim answered.
func (n *Node) lastClaim() time.Time {
	if s := n.claims.Load(); s != nil {
		return s.LastClaim()
	}
	return time.Time{}
}

// trace starts the spans of this process.
func (n *Node) trace(ctx context.Context) error {
	tracing, err := observe.StartTracing(ctx, observe.TracingOptions{
		Endpoint: n.o.Config.Trace.Endpoint, Service: "toolbus", Version: n.o.Version, Logger: n.log, IDs: observer.NewIDs(),
	})
	if err != nil {
		return fmt.Errorf("trace.endpoint: %w", err)
	}
	n.parts.Push("spans", tracing.Shutdown)
	if tracing.Enabled {
		n.observe = observer.New(tracing)
	}
	return nil
}

// observer gives what makes the spans of executions; nil when spans go nowhere.
func (n *Node) observer() pipeline.Observer {
	if n.observe == nil {
		return nil
	}
	return n.observe
}

// probe gives what is told of the steps of admission.
func (n *Node) probe() pipeline.Probe {
	if n.observe == nil {
		return n.o.Probe
	}
	return n.observe.Probe(n.o.Probe)
}

// eventReader shapes the bus to the port of telemetry.
type eventReader struct{ bus *bus.Bus }

func (r eventReader) EventStream(ctx context.Context) (telemetry.EventStream, error) {
	s, err := r.bus.EventStream(ctx)
	return telemetry.EventStream(s), err //nolint:wrapcheck // it names itself
}

func (r eventReader) ReadEvents(ctx context.Context, incarnation string, from uint64, handle func(subjects.Delivery) error) error {
	return r.bus.ReadEvents(ctx, bus.EventsConfig{FromSequence: from, Incarnation: incarnation}, handle) //nolint:wrapcheck // it names itself
}
