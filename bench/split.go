package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/tool"
)

// role is what a child process of the benchmark is. It reads where to connect
// from its standard input, says "ready" with an address, and ends with its input.
type role struct{ name string }

func (r *role) flags(set *flag.FlagSet) {
	set.StringVar(&r.name, "role", "", "used by the benchmark itself for its child processes")
}

// roleNATS is the role of the message server; the others are names of services.
const roleNATS = "nats"

// addresses are the engines as a child reaches them.
type addresses struct {
	Database string `json:"database"`
	NATS     string `json:"nats"`
	Password string `json:"password"`
	Dir      string `json:"dir"`
}

func (a addresses) options() app.Options {
	return app.Options{
		Config: configuration(), Logger: logger(), Database: a.Database, DataDir: a.Dir, Tools: tools(), Domains: []string{domain},
		Bus: bus.Options{URL: a.NATS, User: "bench", Password: tool.NewSecret(a.Password), Name: "node"},
	}
}

func (r *role) run(ctx context.Context) error {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var a addresses
	if err := json.Unmarshal(line, &a); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	if r.name == roleNATS {
		return serveNATS(ctx, a)
	}
	n, err := app.Open(ctx, a.options())
	if err != nil {
		return err
	}
	err = n.Run(ctx, func() { fmt.Println("ready") }, app.Service(r.name))
	return errors.Join(err, n.Close(context.WithoutCancel(ctx)))
}

func serveNATS(ctx context.Context, a addresses) error {
	s, err := bus.StartServer(ctx, bus.ServerOptions{
		StoreDir: a.Dir, Logger: logger(), Users: []bus.User{{Name: "bench", Password: tool.NewSecret(a.Password)}},
	})
	if err != nil {
		return err
	}
	defer s.Shutdown()
	fmt.Println("ready", s.URL())
	<-ctx.Done()
	return nil
}

// child is a started role.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	address string
}

func startChild(ctx context.Context, name string, a addresses) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, "-role", name)}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	err = json.NewEncoder(c.in).Encode(a) //nolint:gosec // the password of the embedded server goes to our own child
	if err == nil {
		var line string
		line, err = bufio.NewReader(out).ReadString('\n')
		c.address = strings.TrimSpace(strings.TrimPrefix(line, "ready"))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), c.stop())
	}
	return c, nil
}

func (c *child) stop() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }

// splitCell measures five processes: the message server, the three services that
// carry calls, and the load, all over TCP.
func splitCell(ctx context.Context, b *bench, name string) (err error) {
	p, err := b.engines.place(ctx, "")
	if err != nil {
		return err
	}
	var children []*child
	defer func() {
		slices.Reverse(children) // the message server last
		for _, c := range children {
			err = errors.Join(err, c.stop())
		}
		err = errors.Join(err, p.close(context.WithoutCancel(ctx)))
	}()
	a := addresses{Password: tool.NewID().String(), Dir: filepath.Join(b.engines.dir, "split_"+p.database)}
	if a.Database, err = overTCP(b.engines.pg.URL(p.database)); err != nil {
		return err
	}
	server, err := startChild(ctx, roleNATS, a)
	if err != nil {
		return err
	}
	children, a.NATS = append(children, server), server.address
	if err := app.Migrate(ctx, a.options()); err != nil {
		return err
	}
	for _, s := range carriers() {
		c, err := startChild(ctx, string(s), a)
		if err != nil {
			return err
		}
		children = append(children, c)
	}
	m, err := b.splitLoad(ctx, a)
	b.setMeasured(name, m)
	return err
}

func (b *bench) splitLoad(ctx context.Context, a addresses) (measured, error) {
	o := a.options().Bus
	o.Name = "runtime"
	runtime, err := bus.Connect(ctx, o)
	if err != nil {
		return measured{}, err
	}
	defer runtime.Close()
	l, err := openLoad(ctx, runtime, writeTool, saturation, 1)
	if err != nil {
		return measured{}, err
	}
	return l.run(ctx, b.warm(), b.o.window, func() {}, func() {})
}

// overTCP turns the address of a socket into that of the loopback interface.
func overTCP(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("host", "127.0.0.1")
	u.RawQuery = q.Encode()
	return u.String(), nil
}
