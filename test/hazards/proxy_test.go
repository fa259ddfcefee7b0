package hazards

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/test/systemtest"
)

// proxy stands in front of PostgreSQL and can lose what the server answers.
type proxy struct {
	t        *testing.T
	listener net.Listener
	network  string
	address  string
	work     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	away  bool
	// refused counts the connections that came while the database was away.
	refused int
	cut     *cut
}

// cut is the one answer that is to be lost.
type cut struct {
	// application names the connections that are looked at.
	application string
	// commits counts down the transactions that end; the last one is hit.
	commits int
	// atOnce cuts the client off while the server is still at work; otherwise it
	// is cut off when the server has answered.
	atOnce bool
	done   chan struct{}
}

// newProxy listens in front of the database at url; the second result is its own
// address.
func newProxy(t *testing.T, url string) (*proxy, string) {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, network: "tcp", address: net.JoinHostPort(c.Host, fmt.Sprint(c.Port)), conns: map[net.Conn]struct{}{}}
	if strings.HasPrefix(c.Host, "/") {
		p.network, p.address = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", c.Host, c.Port)
	}
	if p.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.setAway(true)
		p.work.Wait()
	})
	port := p.listener.Addr().(*net.TCPAddr).Port
	return p, fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s dbname=%s sslmode=disable", port, quoted(c.User), quoted(c.Password), quoted(c.Database))
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }

// lose arms the proxy; the channel that it returns is closed when the answer is
// lost.
func (p *proxy) lose(application string, commits int, atOnce bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = &cut{application: application, commits: commits, atOnce: atOnce, done: make(chan struct{})}
	return p.cut.done
}

// setAway makes the database unreachable, or reachable again.
func (p *proxy) setAway(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
	if away {
		for c := range p.conns {
			_ = c.Close()
		}
	}
}

// awaitRefused waits until the database was asked for in vain that many times.
func (p *proxy) awaitRefused(n int) {
	p.t.Helper()
	systemtest.Await(p.t, "attempts to reach the database", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.refused >= n
	})
}

func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		p.refused++
		_ = c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *proxy) forget(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.keep(client) {
			p.work.Go(func() { p.serve(client) })
		}
	}
}

func (p *proxy) serve(client net.Conn) {
	defer p.forget(client)
	server, err := (&net.Dialer{}).DialContext(p.t.Context(), p.network, p.address)
	if err != nil || !p.keep(server) {
		return
	}
	s := &session{proxy: p, client: client, server: server}
	var back sync.WaitGroup
	back.Go(s.answers)
	s.requests()
	if s.lost() == nil {
		_ = server.Close()
	}
	back.Wait()
	p.forget(server)
}

// pool names connections that say COMMIT in so many words; those of a lane end a
// transaction, or a part of one, with each flush.
const pool = "toolbus"

// cancelRequest stands where a startup message has its version.
const cancelRequest = 80877102

// session is one connection through the proxy.
type session struct {
	proxy          *proxy
	client, server net.Conn
	application    string

	mu     sync.Mutex
	losing *cut
}

func (s *session) lost() *cut {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.losing
}

// requests passes on what the client says, and notices the end of a transaction.
func (s *session) requests() {
	first, err := readMessage(s.client, 0)
	if err != nil {
		return
	}
	if binary.BigEndian.Uint32(first[4:]) == cancelRequest {
		return // what cut the connection off keeps this from arriving, too
	}
	s.application = parameter(first, "application_name")
	if _, err := s.server.Write(first); err != nil {
		return
	}
	executes := 0
	for {
		m, err := readMessage(s.client, 1)
		if err != nil {
			return
		}
		ends := false
		switch m[0] {
		case 'E':
			executes++
		case 'S':
			ends, executes = executes > 0 && s.application != pool, 0
		case 'Q':
			ends = bytes.Contains(bytes.ToLower(m), []byte("commit"))
		}
		hit := ends && s.hit()
		if _, err := s.server.Write(m); err != nil {
			return
		}
		if hit && s.losing.atOnce {
			_ = s.client.Close()
			close(s.losing.done)
			return
		}
	}
}

// hit reports whether the answer to the transaction that ends here is the one to
// lose.
func (s *session) hit() bool {
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	c := s.proxy.cut
	if c == nil || c.application != s.application {
		return false
	}
	if c.commits--; c.commits > 0 {
		return false
	}
	s.proxy.cut = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losing = c
	return true
}

// answers passes on what the server says until an answer is to be lost; the one
// it loses is read to its end.
func (s *session) answers() {
	for {
		m, err := readMessage(s.server, 1)
		if err != nil {
			_ = s.client.Close()
			return
		}
		c := s.lost()
		if c == nil {
			if _, err := s.client.Write(m); err != nil {
				return
			}
			continue
		}
		if m[0] == 'Z' { // the server has done it
			_ = s.client.Close()
			_ = s.server.Close()
			if !c.atOnce {
				close(c.done)
			}
			return
		}
	}
}

// readMessage reads one message whose length stands behind a type of the given
// length.
func readMessage(r io.Reader, typeBytes int) ([]byte, error) {
	head := make([]byte, typeBytes+4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[typeBytes:])) - 4
	m := make([]byte, len(head)+n)
	copy(m, head)
	_, err := io.ReadFull(r, m[len(head):])
	return m, err
}

// parameter reads a parameter of a startup message.
func parameter(startup []byte, name string) string {
	fields := bytes.Split(startup[8:], []byte{0})
	for i := 0; i+1 < len(fields); i += 2 {
		if string(fields[i]) == name {
			return string(fields[i+1])
		}
	}
	return ""
}
