package builtin

import (
	"crypto/tls"
	"time"

	"github.com/toolbus/toolbus/internal/egress"
	"github.com/toolbus/toolbus/internal/sandbox"
	"github.com/toolbus/toolbus/tool"
)

// Options configure the builtin tools. The zero value is usable and careful: no
// network destination is permitted, no command runs without bubblewrap, and the demo
// tools have no sink.
type Options struct {
	// Egress permits destinations; nil permits none.
	Egress *egress.Policy
	// Resolver replaces the system's name resolution.
	Resolver egress.Resolver
	// TLS replaces the system's trusted roots.
	TLS *tls.Config
	// UserAgent is sent with requests; "toolbus" when empty.
	UserAgent string
	// MaximumRedirects bounds the redirects of one web.fetch; 5 when zero, none when
	// negative.
	MaximumRedirects int
	// Sandbox configures sandbox.run_command.
	Sandbox sandbox.Config
	// Now is the clock of system.time and of the demo sink; [time.Now] when nil.
	Now func() time.Time
	// MaximumOutputBytes is the deployment's global ceiling (output.maximum_bytes): no
	// tool declares more. Zero means no ceiling beyond the tools' own declarations.
	MaximumOutputBytes int
	// Demo says where demo.external_write leaves its effect.
	Demo DemoSink
}

// All gives every builtin tool, each safe for concurrent use. Nothing is started and
// nothing needs to be closed.
func All(o Options) []tool.Tool {
	o = o.withDefaults()
	return []tool.Tool{
		systemTime(o),
		mathEvaluate(o),
		workspaceList(o),
		workspaceReadText(o),
		workspaceWriteText(o),
		workspaceEditText(o),
		workspaceSearch(o),
		workspaceDelete(o),
		artifactExport(o),
		webFetch(o),
		sandboxRunCommand(o),
		demoEcho(o),
		demoSlow(o),
		demoFlaky(o),
		demoLargeOutput(o),
		DemoWrite(o, "demo.external_write", tool.ExternalWrite, tool.NonIdempotent),
	}
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.UserAgent == "" {
		o.UserAgent = "toolbus"
	}
	if o.MaximumRedirects == 0 {
		o.MaximumRedirects = 5
	}
	o.MaximumRedirects = max(o.MaximumRedirects, 0)
	return o
}

// transport makes the one way out. Connections are not kept, so that none outlives
// the call it was made for and nothing has to be closed.
func (o Options) transport() *egress.Transport {
	dialer := &egress.Dialer{Policy: o.Egress, Resolver: o.Resolver}
	return egress.NewTransport(dialer, egress.TransportOptions{TLS: o.TLS})
}
