package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is what a run came to; every number is the median of the repetitions.
type report struct {
	Machine  machine            `json:"machine"`
	Runs     int                `json:"runs"`
	Seconds  float64            `json:"seconds"`
	Floor    map[string]number  `json:"floor"`
	Toolbus  map[string]numbers `json:"toolbus"`
	StepsUS  map[string]number  `json:"steps_us"`
	Flushes  map[string]number  `json:"calls_per_flush"`
	MemoryMB map[string]number  `json:"memory_mb"`
	StartMS  number             `json:"start_to_ready_ms"`
	Peers    map[string]number  `json:"peers"`
	Ratios   map[string]number  `json:"ratios"`
	Spread   map[string]span    `json:"ratios_min_max"`
	Cells    map[string]numbers `json:"cells"`
}

type (
	numbers map[string]number
	// number is a median; NaN, which is null in JSON, was not measured.
	number float64
	// span is the least and the greatest of the repetitions.
	span [2]number
)

// MarshalJSON writes four significant digits.
//
//nolint:unparam // the interface's signature
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, "%.4g", float64(n)), nil
}

type machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	OS         string `json:"os"`
	Go         string `json:"go"`
	PostgreSQL string `json:"postgresql"`
}

func describe(ctx context.Context, e *engines) machine {
	m := machine{Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if version, err := e.sql(ctx, "postgres", "SHOW server_version"); err == nil {
		m.PostgreSQL = version
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if _, name, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(line, "model name") {
				m.CPU = strings.TrimSpace(name)
				break
			}
		}
	}
	return m
}

// target is a ratio that is promised.
type target struct {
	name, over, under string
	// must is the bound; atMost says on which side of it the ratio has to be.
	must   float64
	atMost bool
	says   string
}

func targets() []target {
	return []target{
		{"sat_vs_raw4", "write.sat", "raw4/32.rate", 2.5, false, "strict calls/s ÷ four single-row commits, 32 clients"},
		{"p50_vs_raw4", "write/1.p50", "raw4/1.p50", 2.0, true, "strict p50 at 1 in flight ÷ four commits, 1 client"},
		{"sat_vs_river", "write.sat", "river.rate", 0.7, false, "strict calls/s ÷ River, insert and work with output"},
		{"sat_vs_dbos", "write.sat", "dbos.rate", 5, false, "strict calls/s ÷ DBOS, one step, 32 callers"},
		{"no_effect_vs_strict", "echo.sat", "write.sat", 1.1, false, "calls without effect/s ÷ strict calls/s"},
		{"million_vs_empty", "million/1000.rate", "write/1000.rate", 0.85, false, "calls/s on a million finished calls ÷ on an empty table"},
		{"split_vs_one_process", "split/1000.rate", "write/1000.rate", 0.6, false, "calls/s in five processes over TCP ÷ in one"},
	}
}

func (b *bench) report(ctx context.Context) *report {
	b.saturate()
	r := &report{
		Machine: describe(ctx, b.engines), Runs: b.o.runs, Seconds: b.o.window.Seconds(),
		Floor: map[string]number{
			"raw4_32_calls_per_s": b.median("raw4/32.rate"), "raw4_1_p50_ms": b.median("raw4/1.p50"), "fsync_ms": b.median("fsync.ms"),
		},
		Toolbus: map[string]numbers{}, StepsUS: map[string]number{}, Flushes: map[string]number{}, Spread: map[string]span{},
		MemoryMB: map[string]number{
			"process_idle": b.median("write/1.idle_process"), "postgres_idle": b.median("write/1.idle_postgres"),
			"process_saturated": b.median("write/1000.rss_process"), "postgres_saturated": b.median("write/1000.rss_postgres"),
		},
		StartMS: b.median("start.ms"),
		Peers:   map[string]number{"river_calls_per_s": b.median("river.rate"), "dbos_calls_per_s": b.median("dbos.rate")},
		Ratios:  map[string]number{}, Cells: map[string]numbers{},
	}
	for _, name := range []string{"echo", "write"} {
		r.Toolbus[name] = numbers{
			"sat_calls_per_s": b.median(name + ".sat"), "p50_1_ms": b.median(name + "/1.p50"), "p99_1_ms": b.median(name + "/1.p99"),
			"cpu_us_per_call": b.median(name + "/1000.cpu"),
		}
	}
	for metric := range b.samples {
		b.file(r, metric)
	}
	for _, t := range targets() {
		each := b.ratios(t)
		r.Ratios[t.name] = median(each)
		if len(each) > 0 {
			r.Spread[t.name] = span{number(slices.Min(each)), number(slices.Max(each))}
		}
	}
	return r
}

// saturate takes, in each repetition, the best of the two largest loads.
func (b *bench) saturate() {
	for _, name := range []string{"echo", "write"} {
		for b.rep = range b.o.runs {
			one, two := b.value(name+"/1000.rate", b.rep), b.value(name+"/2000.rate", b.rep)
			if math.IsNaN(two) || one > two {
				two = one
			}
			b.set(name+".sat", two)
		}
	}
}

// file puts a metric where the report has it.
func (b *bench) file(r *report, metric string) {
	name, what, _ := strings.Cut(metric, ".")
	switch {
	case name == "write/1" && strings.HasPrefix(what, "step_"):
		r.StepsUS[strings.TrimPrefix(what, "step_")] = b.median(metric)
	case name == "write/1000" && strings.HasPrefix(what, "flush_"):
		r.Flushes[strings.TrimPrefix(what, "flush_")] = b.median(metric)
	}
	if r.Cells[name] == nil {
		r.Cells[name] = numbers{}
	}
	r.Cells[name][what] = b.median(metric)
}

// ratios gives a ratio in each repetition that has both sides.
func (b *bench) ratios(t target) []float64 {
	var out []float64
	for rep := range b.o.runs {
		if v := b.value(t.over, rep) / b.value(t.under, rep); !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, v)
		}
	}
	return out
}

func (b *bench) median(metric string) number {
	return median(slices.DeleteFunc(slices.Clone(b.samples[metric]), math.IsNaN))
}

func median(values []float64) number {
	if len(values) == 0 {
		return number(math.NaN())
	}
	slices.Sort(values)
	return number((values[(len(values)-1)/2] + values[len(values)/2]) / 2)
}

func (r *report) write(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a report for everybody
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644) //nolint:gosec // as above
}

func (r *report) print(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer func() { _ = w.Flush() }()
	_, _ = fmt.Fprintf(w, "cell\tcalls/s\tp50 ms\tp99 ms\tCPU µs/call\tof it PostgreSQL\t\n")
	for _, c := range cells(true) {
		n, ok := r.Cells[c.name]
		if !ok || c.name == "fsync" || c.name == "start" {
			continue
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t\n", c.name, n.text("rate", "%.0f"), n.text("p50", "%.2f"), n.text("p99", "%.2f"),
			n.text("cpu", "%.0f"), n.text("cpu_postgres", "%.0f"))
	}
	_, _ = fmt.Fprintf(w, "\nratio\tmedian\tmin\tmax\tmust\t\t\n")
	for _, t := range targets() {
		spread, ok := r.Spread[t.name]
		if !ok {
			continue
		}
		bound, verdict := fmt.Sprintf("≥ %.3g", t.must), "met"
		if t.atMost {
			bound = fmt.Sprintf("≤ %.3g", t.must)
		}
		if v := float64(r.Ratios[t.name]); v != t.must && (v > t.must) == t.atMost {
			verdict = "MISSED"
		}
		_, _ = fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%s\t%s\t\n", t.name, r.Ratios[t.name], spread[0], spread[1], bound, verdict)
	}
}

// text formats a number, or a dash where there is none.
func (n numbers) text(what, format string) string {
	v, ok := n[what]
	if !ok || math.IsNaN(float64(v)) {
		return "-"
	}
	return fmt.Sprintf(format, float64(v))
}
