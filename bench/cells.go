package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/bus"
)

// bench measures cells, repetition after repetition.
type bench struct {
	o       options
	engines *engines
	peers   *peers
	// million is the database with a million finished calls, empty until made.
	million string
	// samples hold the value of each metric in each repetition; NaN where it was
	// not measured.
	samples map[string][]float64
	rep     int
}

// cell is one thing to measure, and leaves its metrics under its own name.
type cell struct {
	name string
	run  func(ctx context.Context, b *bench, name string) error
}

// saturation is where throughput is compared: more in flight gains nothing.
const saturation = 1000

func cells(million bool) []cell {
	all := []cell{
		{"fsync", syncCell}, {"raw4/32", rawCell(32)}, {"raw4/1", rawCell(1)},
	}
	for _, n := range []int{1, 32, 256, saturation, maximumInFlight} {
		all = append(all, cell{fmt.Sprintf("write/%d", n), loadCell(writeTool, n, 1)}, cell{fmt.Sprintf("echo/%d", n), loadCell(echoTool, n, 1)})
	}
	all = append(all,
		cell{"write8/128", loadCell(writeTool, 128, 8)},
		cell{"split/1000", splitCell},
		cell{"river", peerCell("river")}, cell{"dbos", peerCell("dbos")},
		cell{"start", startCell},
	)
	if million {
		all = append(all, cell{"million/1000", millionCell})
	}
	return all
}

func newBench(ctx context.Context, o options) (*bench, error) {
	e, err := startEngines(ctx)
	if err != nil {
		return nil, err
	}
	b := &bench{o: o, engines: e, samples: map[string][]float64{}}
	if b.selected("river") || b.selected("dbos") {
		if b.peers, err = buildPeers(ctx, e.dir); err != nil {
			fmt.Fprintln(os.Stderr, "bench: left out:", err)
		}
	}
	return b, nil
}

func (b *bench) close(ctx context.Context) error { return b.engines.close(ctx) }

func (b *bench) selected(name string) bool { return b.o.only.MatchString(name) }

func (b *bench) measure(ctx context.Context) error {
	chosen := slices.DeleteFunc(cells(b.o.million), func(c cell) bool { return !b.selected(c.name) })
	if len(chosen) == 0 {
		return errors.New("no cell of that name")
	}
	for b.rep = range b.o.runs {
		for i, c := range chosen {
			began := time.Now()
			if err := c.run(ctx, b, c.name); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			fmt.Fprintf(os.Stderr, "[%d/%d] %2d/%d %-13s %s  (%.1f s)\n", b.rep+1, b.o.runs, i+1, len(chosen), c.name, b.brief(c.name), time.Since(began).Seconds())
		}
	}
	return nil
}

// brief says what a cell has just come to.
func (b *bench) brief(name string) string {
	var out strings.Builder
	for _, what := range []string{"rate", "p50", "p99", "cpu", "ms"} {
		if v := b.value(name+"."+what, b.rep); !math.IsNaN(v) {
			_, _ = fmt.Fprintf(&out, "  %s %8.2f", what, v)
		}
	}
	return out.String()
}

func (b *bench) set(metric string, value float64) {
	if b.samples[metric] == nil {
		b.samples[metric] = make([]float64, b.o.runs)
		for i := range b.samples[metric] {
			b.samples[metric][i] = math.NaN()
		}
	}
	b.samples[metric][b.rep] = value
}

func (b *bench) value(metric string, rep int) float64 {
	if all := b.samples[metric]; all != nil {
		return all[rep]
	}
	return math.NaN()
}

func (b *bench) setMeasured(name string, m measured) {
	b.set(name+".rate", m.rate())
	b.set(name+".p50", m.percentile(0.5))
	b.set(name+".p99", m.percentile(0.99))
}

// warm is how long a load runs before it counts: connections, caches and plans.
func (b *bench) warm() time.Duration { return min(2*time.Second, b.o.window) }

func syncCell(_ context.Context, b *bench, name string) error {
	ms, err := measureSync(b.engines.dir)
	b.set(name+".ms", ms)
	return err
}

func rawCell(clients int) func(context.Context, *bench, string) error {
	return func(ctx context.Context, b *bench, name string) error {
		p, err := b.engines.place(ctx, "")
		if err != nil {
			return err
		}
		defer func() { _ = p.close(context.WithoutCancel(ctx)) }()
		if _, err := b.engines.sql(ctx, p.database, rawTable); err != nil {
			return err
		}
		m, err := measureRaw(ctx, b.engines.pg.URL(p.database), clients, b.warm(), b.o.window)
		b.setMeasured(name, m)
		return err
	}
}

func loadCell(tool string, drivers, calls int) func(context.Context, *bench, string) error {
	return func(ctx context.Context, b *bench, name string) error {
		p, err := b.engines.place(ctx, "")
		if err != nil {
			return err
		}
		return errors.Join(b.inOneProcess(ctx, p, name, tool, drivers, calls), p.close(context.WithoutCancel(ctx)))
	}
}

// inOneProcess measures a node that has every service, in this process.
func (b *bench) inOneProcess(ctx context.Context, p *place, name, tool string, drivers, calls int) error {
	o := p.options()
	if err := app.Migrate(ctx, o); err != nil {
		return err
	}
	return withNode(ctx, o, func(n *app.Node) error {
		o.Bus.Name = "runtime"
		runtime, err := bus.Connect(ctx, o.Bus)
		if err != nil {
			return err
		}
		defer runtime.Close()
		l, err := openLoad(ctx, runtime, tool, drivers, calls)
		if err != nil {
			return err
		}
		server := b.engines.pg.Pid()
		idleProcess, idlePostgres := processUsage(os.Getpid()), familyUsage(server)
		var before, after [2]usage
		var flushes [2]map[string][2]int64
		m, err := l.run(ctx, b.warm(), b.o.window, func() {
			flushes[0] = n.Store.Stats()
			before = [2]usage{processUsage(os.Getpid()), familyUsage(server)}
		}, func() {
			after = [2]usage{processUsage(os.Getpid()), familyUsage(server)}
			flushes[1] = n.Store.Stats()
		})
		if err != nil {
			return err
		}
		b.setMeasured(name, m)
		b.setUsage(name, m, before, after)
		b.set(name+".idle_process", float64(idleProcess.resident)/1e6)
		b.set(name+".idle_postgres", float64(idlePostgres.resident)/1e6)
		for lane, end := range flushes[1] {
			b.set(name+".flush_"+lane, float64(m.calls)/float64(max(1, end[1]-flushes[0][lane][1])))
		}
		return b.steps(ctx, p, name)
	})
}

func (b *bench) setUsage(name string, m measured, before, after [2]usage) {
	perCall := func(i int) float64 {
		return float64((after[i].cpu - before[i].cpu).Microseconds()) / float64(max(1, m.calls))
	}
	b.set(name+".cpu_process", perCall(0))
	b.set(name+".cpu_postgres", perCall(1))
	b.set(name+".cpu", perCall(0)+perCall(1))
	b.set(name+".rss_process", float64(after[0].resident)/1e6)
	b.set(name+".rss_postgres", float64(after[1].resident)/1e6)
}

// steps reads from the history how long calls were on their way between two
// commits.
func (b *bench) steps(ctx context.Context, p *place, name string) error {
	out, err := b.engines.sql(ctx, p.database, `SELECT
		coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM started_at - created_at) * 1e6), 0),
		coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM effect_sent_at - started_at) * 1e6), 0),
		coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM completed_at - coalesce(effect_sent_at, started_at)) * 1e6), 0)
		FROM (SELECT created_at, started_at, effect_sent_at, completed_at FROM tool_invocations WHERE status = 'succeeded' ORDER BY created_at DESC LIMIT 2000) recent`)
	if err != nil {
		return err
	}
	var claim, mark, end float64
	if _, err := fmt.Sscanf(out, "%f|%f|%f", &claim, &mark, &end); err != nil {
		return fmt.Errorf("steps: %w", err)
	}
	b.set(name+".step_intent_to_claim", claim)
	b.set(name+".step_claim_to_watermark", mark)
	b.set(name+".step_watermark_to_result", end)
	return nil
}

// withNode runs every service that carries calls in this process while f does
// its work.
func withNode(ctx context.Context, o app.Options, f func(*app.Node) error) (err error) {
	n, err := app.Open(ctx, o)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- n.Run(running, func() { close(ready) }, carriers()...) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended, n.Close(context.WithoutCancel(ctx)))
	}()
	select {
	case <-ready:
		return f(n)
	case err := <-ended:
		ended <- nil
		return err
	}
}

// carriers are the services that a call passes.
func carriers() []app.Service { return []app.Service{app.Gatekeeper, app.Executor, app.Recovery} }

// startCell measures from nothing running, but with the data of an earlier run,
// to ready for calls.
func startCell(ctx context.Context, b *bench, name string) error {
	dir := filepath.Join(b.engines.dir, fmt.Sprintf("start_%d", b.rep))
	for range 2 { // the first start makes the data
		began := time.Now()
		o := app.EngineOptions{Options: app.Options{Config: configuration(), Logger: logger()}, Dir: dir}
		e, err := app.StartEngines(ctx, o)
		if err != nil {
			return err
		}
		use := e.Use(o.Options)
		err = app.Migrate(ctx, use)
		if err == nil {
			err = withNode(ctx, use, func(*app.Node) error {
				b.set(name+".ms", float64(time.Since(began).Microseconds())/1e3)
				return nil
			})
		}
		if err := errors.Join(err, e.Close(context.WithoutCancel(ctx))); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}
