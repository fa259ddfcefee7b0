package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/subjects/topology"
	"github.com/toolbus/toolbus/tool"
)

const (
	defaultName     = "toolbus-client"
	defaultPatience = 30 * time.Second
)

// InProcess is a NATS server in the same process, reached without a socket; the
// server of nats-server implements it.
type InProcess interface {
	InProcessConn() (net.Conn, error)
}

// Options say where the bus is, and who is calling.
type Options struct {
	// URL of the servers, comma-separated. Ignored when InProcess is set.
	URL string
	// InProcess, unless nil, is connected to instead of URL.
	InProcess InProcess
	// User and Password, Token, or CredentialsFile identify the connection.
	User            string
	Password        tool.Secret
	Token           tool.Secret
	CredentialsFile string
	// Tenant is the one whose subjects are used. NATS permissions bind it to the
	// identity.
	Tenant string
	// Actor is who is recorded as having sent a command. Only commands need it;
	// NATS permissions bind it to the identity.
	Actor string
	// Name appears in the server's connection list; empty means toolbus-client.
	Name string
	// InboxPrefix is where answers arrive; empty means _INBOX_ and the user, or
	// the name when there is no user. Permissions admit an identity to its own.
	InboxPrefix string
	// Patience is how long something is sent again while nobody answers; a
	// context may end it sooner. 0 means 30 s.
	Patience time.Duration
	// Logger gets reconnects, refusals of the server and messages that do not
	// decode; nil discards.
	Logger *slog.Logger
	// Inject gives the trace headers of a message, such as traceparent; nil
	// sends none.
	Inject func(context.Context) map[string]string
	// NATS are further options of the connection, for TLS above all. They apply
	// last; what they replace of the reconnect behaviour and the handlers is lost.
	NATS []nats.Option
}

func (o *Options) withDefaults() error {
	if o.URL == "" && o.InProcess == nil {
		return errors.New("options: no server")
	}
	if !subjects.ValidToken(o.Tenant) {
		return fmt.Errorf("options: tenant: %w", subjects.ErrToken)
	}
	if o.Actor != "" && !subjects.ValidToken(o.Actor) {
		return fmt.Errorf("options: actor: %w", subjects.ErrToken)
	}
	if o.Name == "" {
		o.Name = defaultName
	}
	if o.InboxPrefix == "" {
		owner := o.Name
		if o.User != "" {
			owner = o.User
		}
		if !subjects.ValidToken(owner) {
			return fmt.Errorf("options: a user or name outside the alphabet of tokens needs an inbox prefix: %w", subjects.ErrToken)
		}
		o.InboxPrefix = "_INBOX_" + owner
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Inject == nil {
		o.Inject = func(context.Context) map[string]string { return nil }
	}
	return nil
}

func (c *Client) natsOptions(up chan<- struct{}) []nats.Option {
	o := &c.options
	options := append(topology.Connection(o.Name, o.InboxPrefix),
		nats.ConnectHandler(func(*nats.Conn) { up <- struct{}{} }),
		nats.DisconnectErrHandler(c.onDisconnect),
		nats.ReconnectHandler(c.onReconnect),
		nats.ErrorHandler(c.onError),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
	)
	if o.InProcess != nil {
		options = append(options, nats.InProcessServer(o.InProcess))
	}
	if o.User != "" {
		options = append(options, nats.UserInfo(o.User, o.Password.Reveal()))
	}
	if !o.Token.Empty() {
		options = append(options, nats.Token(o.Token.Reveal()))
	}
	if o.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(o.CredentialsFile))
	}
	return append(options, o.NATS...)
}
