package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/config"
	"github.com/toolbus/toolbus/internal/ui"
	"github.com/toolbus/toolbus/tool"
)

// Build is what tells one program of toolbus from another.
type Build struct {
	// Version of the program; empty means devel.
	Version string
	// Tools are offered beside those that are built in.
	Tools []tool.Tool
	// Domains are the first segments of their names.
	Domains []string
}

// Process is what a command sees of the process it runs in.
type Process struct {
	// Name is how a person calls the program, for the commands that are shown;
	// empty means toolbus.
	Name string
	// Args are the arguments without the program's name, Env the environment,
	// each entry NAME=value.
	Args, Env []string
	Stdin     io.Reader
	Stdout    io.Writer
	Stderr    io.Writer
}

// patience is how long after a first signal another one still means the same:
// some senders signal the process and its group.
const patience = time.Second

// Main runs the command line of the process and ends it with the exit code. The
// first interrupt or termination signal ends the command in order, a later one
// the process.
func Main(b Build) {
	app.TuneGC(os.Getenv("GOGC") != "")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(patience, stop) })
	os.Exit(Run(ctx, b, Process{Name: programName(), Args: os.Args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}))
}

// programName is how this program was called; `go run` calls it from a place that
// is gone when it ends.
func programName() string {
	about, ok := debug.ReadBuildInfo()
	program, err := os.Executable()
	if ok && err == nil && strings.Contains(program, "/go-build") {
		return "go run ." + strings.TrimPrefix(about.Path, about.Main.Path)
	}
	return shellWord(os.Args[0])
}

// Run runs one command until it is done or ctx ends, and returns its exit code:
// 0 done, 1 failed, 2 wrong use, 3 the outcome of the call was not succeeded
// (the contract, section 8).
func Run(ctx context.Context, b Build, pr Process) int {
	p := newProcess(b, pr)
	selected, code := p.parse(pr)
	if selected == nil {
		return code
	}
	selected.BindTo(ctx, (*context.Context)(nil))
	return p.report(selected.Run(p))
}

// process is the running command's view of the world.
type process struct {
	name  string
	build Build
	env   []string
	in    io.Reader
	out   *ui.Printer
	err   *ui.Printer
}

func newProcess(b Build, pr Process) *process {
	if b.Version == "" {
		b.Version = "devel"
	}
	if pr.Name == "" {
		pr.Name = "toolbus"
	}
	return &process{name: pr.Name, build: b, env: pr.Env, in: pr.Stdin, out: ui.NewPrinter(pr.Stdout, pr.Env), err: ui.NewPrinter(pr.Stderr, pr.Env)}
}

// parse gives the selected command, or the code to end with.
func (p *process) parse(pr Process) (*kong.Context, int) {
	ended := -1
	parser, err := kong.New(newGrammar(), kong.Name("toolbus"), kong.Description(description), kong.Writers(p.out, p.err),
		kong.Exit(func(code int) { ended = code }), kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.UsageOnError(), kong.Vars{"config_help": "Configuration file; also TOOLBUS_CONFIG."})
	if err != nil {
		return nil, p.report(fmt.Errorf("command line: %w", err))
	}
	selected, err := parser.Parse(pr.Args)
	switch {
	case ended >= 0: // help was asked for and given
		return nil, ended
	case err != nil:
		return nil, p.report(wrongUse("%w", err))
	case selected.Selected() == nil:
		return nil, p.report(wrongUse("no command is named"))
	}
	return selected, exitDone
}

// command spells a command of this program for a person to type.
func (p *process) command(rest string) string { return p.name + " " + rest }

// getenv gives the value of a variable, empty when there is none.
func (p *process) getenv(name string) string {
	for _, entry := range slices.Backward(p.env) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// json writes a value as one line.
func (p *process) json(v any) error {
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// load reads the configuration, and says which variables look like mistakes.
func (p *process) load(file string) (config.Config, error) {
	if file == "" {
		file = p.getenv("TOOLBUS_CONFIG")
	}
	c, err := config.Load(file, p.env)
	if err != nil {
		return c, wrongUse("%w", err)
	}
	for _, name := range config.UnknownVariables(p.env) {
		if name != dataVariable {
			p.err.Line(p.err.Paint(ui.Yellow, "toolbus: environment variable "+ui.Escape(name)+" is no key of the configuration and is not used"))
		}
	}
	return c, nil
}

// logger writes the log of a service to standard error.
func (p *process) logger(c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // the configuration admits no other word
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(p.err, o))
	}
	return slog.New(slog.NewTextHandler(p.err, o))
}

// options are those of a node of this build.
func (p *process) options(c config.Config) app.Options {
	return app.Options{
		Config: c, Logger: p.logger(c.Log), Version: semanticVersion(p.build.Version),
		Tools: p.build.Tools, Domains: p.build.Domains, Getenv: p.getenv,
	}
}
