package app

import (
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/config"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/subjects/topology"
	"github.com/toolbus/toolbus/tool"
)

// Service names a service that a node can run.
type Service string

// The services.
const (
	Gatekeeper Service = "gatekeeper"
	Executor   Service = "executor"
	Recovery   Service = "recovery"
	Telemetry  Service = "telemetry"
)

// Services lists every service.
func Services() []Service { return []Service{Gatekeeper, Executor, Recovery, Telemetry} }

// Options say what a node is made of.
type Options struct {
	Config config.Config
	Logger *slog.Logger
	// Version is that of the program.
	Version string
	// Bus says how NATS is reached; its URL falls back to nats.url.
	Bus bus.Options
	// Database is the address of PostgreSQL; empty means database.url.
	Database string
	// DataDir is where workspaces live unless workspace.directory says otherwise.
	DataDir string
	// Tools are a custom build's own tools, beside the builtins.
	Tools []tool.Tool
	// Domains are the domains of their names.
	Domains []string
	// Devices execute the tools of attached devices.
	Devices Devices
	// DemoSink is the file to which demo.external_write appends.
	DemoSink string
	// DevToken admits to the HTTP API with every right; empty for none.
	DevToken tool.Secret
	// Getenv resolves credential references to the environment.
	Getenv func(string) string
	// Probe is told of every step; for tests.
	Probe pipeline.Probe
	// Topology sizes the streams; zero fields are the defaults, and the replicas
	// are those of the configuration.
	Topology topology.Params
	// DrainTimeout bounds how long a stop waits for running calls; 0 means 30 s.
	DrainTimeout time.Duration
}

// TuneGC trades memory for processor time: a process of toolbus holds little and
// allocates much, so the collector would run all the time. It is for main
// functions; asked says that the environment has decided already.
func TuneGC(asked bool) {
	if !asked {
		debug.SetGCPercent(400)
	}
}

func (o *Options) withDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Database == "" {
		o.Database = o.Config.Database.URL.Reveal()
	}
	if o.Bus.URL == "" {
		o.Bus.URL = o.Config.NATS.URL.Reveal()
	}
	if o.Bus.CredentialsFile == "" {
		o.Bus.CredentialsFile = o.Config.NATS.CredentialsFile
	}
	if o.Bus.Logger == nil {
		o.Bus.Logger = o.Logger
	}
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Version == "" {
		o.Version = "0.0.0"
	}
}
