package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/config"
	"github.com/toolbus/toolbus/internal/localpg"
	"github.com/toolbus/toolbus/tool"
)

// engines are PostgreSQL, as any fresh installation configures it and with fsync,
// and an embedded NATS server. Every cell gets a database and an account of its
// own, so that none finds what another left.
type engines struct {
	dir  string
	pg   *localpg.Cluster
	nats *bus.Server
	next int
}

func startEngines(ctx context.Context) (*engines, error) {
	dir, err := os.MkdirTemp("", "toolbus-bench-")
	if err != nil {
		return nil, err
	}
	e := &engines{dir: dir}
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(err, e.close(context.WithoutCancel(ctx)))
	}
	return e, nil
}

func (e *engines) start(ctx context.Context) error {
	if err := os.Chmod(e.dir, 0o755); err != nil { //nolint:gosec // the account that runs PostgreSQL has to pass through
		return err
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	if e.pg, err = localpg.Start(ctx, localpg.Options{Dir: filepath.Join(e.dir, "postgres"), Port: port, Logger: logger()}); err != nil {
		return err
	}
	e.nats, err = bus.StartServer(ctx, bus.ServerOptions{StoreDir: filepath.Join(e.dir, "nats"), Port: -1, Logger: logger()})
	return err
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.New("no TCP port")
	}
	return addr.Port, l.Close()
}

func (e *engines) close(ctx context.Context) error {
	var err error
	if e.nats != nil {
		e.nats.Shutdown()
	}
	if e.pg != nil {
		err = e.pg.Stop(ctx)
	}
	return errors.Join(err, os.RemoveAll(e.dir))
}

// sql runs statements as the superuser and gives what they print.
func (e *engines) sql(ctx context.Context, database, statements string) (string, error) {
	return e.pg.Exec(ctx, database, statements)
}

// place is a database and an account that one cell has for itself.
type place struct {
	engines  *engines
	database string
	user     bus.User
	keep     bool // the database outlives the cell
}

// place makes a new one; database names an existing database, empty a new one.
func (e *engines) place(ctx context.Context, database string) (*place, error) {
	e.next++
	p := &place{engines: e, database: database, keep: database != ""}
	if !p.keep {
		p.database = fmt.Sprintf("bench_%d", e.next)
		if _, err := e.sql(ctx, "postgres", "CREATE DATABASE "+p.database); err != nil {
			return nil, err
		}
	}
	if _, err := e.sql(ctx, "postgres", "CHECKPOINT"); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("bench_%d", e.next)
	p.user = bus.User{Name: name, Account: name, Password: tool.NewSecret(name)}
	return p, e.nats.AddUser(p.user)
}

// options point a node at the place, without sockets.
func (p *place) options() app.Options {
	return app.Options{
		Config: configuration(), Logger: logger(), Database: p.engines.pg.URL(p.database),
		Bus:     bus.Options{Server: p.engines.nats, User: p.user.Name, Password: p.user.Password, Name: "node"},
		DataDir: p.engines.dir, Tools: tools(), Domains: []string{domain},
	}
}

// configuration is the shipped one with room for as many calls as the largest
// cell has in flight.
func configuration() config.Config {
	c := config.Default()
	c.Gatekeeper.Concurrency, c.Executor.Slots = 2*maximumInFlight+2, 2*maximumInFlight
	return c
}

func (p *place) close(ctx context.Context) error {
	err := p.engines.nats.RemoveUser(p.user.Name)
	if p.keep {
		return err
	}
	_, dropped := p.engines.sql(ctx, "postgres", "DROP DATABASE IF EXISTS "+p.database+" WITH (FORCE)")
	return errors.Join(err, dropped)
}
