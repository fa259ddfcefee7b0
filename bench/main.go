package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/toolbus/toolbus/app"
)

// options are the command line.
type options struct {
	runs       int
	window     time.Duration
	only       *regexp.Regexp
	out        string
	million    bool
	cpuProfile string
	role       role
}

func parse(args []string) (options, error) {
	o := options{}
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.IntVar(&o.runs, "runs", 5, "repetitions of every cell")
	seconds := set.Float64("seconds", 3, "length of one measurement")
	quick := set.Bool("quick", false, "one repetition of half a second")
	only := set.String("only", "", "regular expression of the cells to measure; empty for all")
	set.StringVar(&o.out, "out", "bench/out/latest.json", "where the report goes; empty for nowhere")
	set.BoolVar(&o.million, "million", false, "compare with a table of a million finished calls")
	set.StringVar(&o.cpuProfile, "cpuprofile", "", "file for a CPU profile of this process")
	o.role.flags(set)
	if err := set.Parse(args); err != nil {
		return o, err
	}
	o.window = time.Duration(*seconds * float64(time.Second))
	if *quick {
		o.runs, o.window = 1, 500*time.Millisecond
	}
	var err error
	o.only, err = regexp.Compile(*only)
	if err == nil && (o.runs < 1 || o.window <= 0 || set.NArg() > 0) {
		err = errors.New("runs and seconds must be positive, and there are no arguments")
	}
	return o, err
}

func main() {
	app.TuneGC(os.Getenv("GOGC") != "")
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.role.name != "" {
		err = o.role.run(ctx)
	} else {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // nothing else is deferred
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.cpuProfile != "" {
		f, err := os.Create(o.cpuProfile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(context.WithoutCancel(ctx))) }()
	if err := b.measure(ctx); err != nil {
		return err
	}
	r := b.report(ctx)
	r.print(os.Stdout)
	if o.out == "" {
		return nil
	}
	return r.write(o.out)
}

// logger says what goes wrong; what goes well is in the table.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}
