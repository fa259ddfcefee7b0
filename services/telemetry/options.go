package telemetry

import (
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/toolbus/toolbus/internal/observe"
	"github.com/toolbus/toolbus/tool"
)

// Role is what the bearer of a token may do; each role includes those before it.
type Role string

// The roles, least first.
const (
	Viewer   Role = "viewer"
	Approver Role = "approver"
	Admin    Role = "admin"
)

// Token admits a person or a program.
type Token struct {
	// Name is recorded as the actor.
	Name  string
	Value tool.Secret
	Role  Role
	// Tenants are those whose events the bearer sees; "*" stands for all.
	Tenants []string
}

// Options configure the service.
type Options struct {
	// Address is the host:port to listen on; port 0 picks one.
	Address string
	// Tokens admit clients; without any, only health and metrics are served.
	Tokens  []Token
	Events  EventReader
	Tables  Tables
	Metrics *observe.Metrics
	// Checks decide readiness. The service adds its own and runs them.
	Checks *observe.Checks
	Logger *slog.Logger
	// History is how many events are kept in memory: how far a client may be
	// behind before it is disconnected; 8192 unless set.
	History int
	// KeepAlive is the silence after which a client is sent a comment; 15 seconds
	// unless set.
	KeepAlive time.Duration
	// WriteTimeout bounds each write to a client; 10 seconds unless set.
	WriteTimeout time.Duration
	// Clients bounds how many follow the events at a time; 256 unless set.
	Clients int
	// Sample is the pause between two looks at the tables; 15 seconds unless set.
	Sample time.Duration
}

func (o *Options) validate() error {
	switch {
	case o.Events == nil, o.Tables == nil, o.Metrics == nil, o.Checks == nil:
		return errors.New("telemetry: event reader, tables, metrics and checks are required")
	case o.History < 0, o.Clients < 0, o.KeepAlive < 0, o.WriteTimeout < 0, o.Sample < 0:
		return errors.New("telemetry: bounds must not be negative")
	}
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		return errors.New("telemetry: the address must be host:port")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	orElse(&o.History, 8192)
	orElse(&o.Clients, 256)
	orElse(&o.KeepAlive, 15*time.Second)
	orElse(&o.WriteTimeout, 10*time.Second)
	orElse(&o.Sample, 15*time.Second)
	return nil
}

func orElse[T comparable](value *T, otherwise T) {
	var unset T
	if *value == unset {
		*value = otherwise
	}
}
