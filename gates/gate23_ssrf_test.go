package gates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolbus/toolbus/builtin"
	"github.com/toolbus/toolbus/internal/egress"
	"github.com/toolbus/toolbus/tool"
)

// gate23Addresses are destinations no request may reach, one of each kind.
var gate23Addresses = map[string]string{
	"unspecified": "0.0.0.0", "this network": "0.1.2.3", "private 10": "10.0.0.1", "shared": "100.64.0.1",
	"metadata in shared space": "100.100.100.200", "loopback": "127.0.0.1", "far loopback": "127.8.9.10",
	"metadata on a public address": "168.63.129.16", "metadata": "169.254.169.254", "task metadata": "169.254.170.2",
	"private 172": "172.16.0.1", "metadata in assignments": "192.0.0.192", "documentation 1": "192.0.2.1", "6to4 relay": "192.88.99.1",
	"private 192": "192.168.0.1", "benchmark": "198.18.0.1", "documentation 2": "198.51.100.1", "documentation 3": "203.0.113.1",
	"multicast": "224.0.0.1", "reserved": "240.0.0.1", "broadcast": "255.255.255.255",
	"unspecified 6": "::", "loopback 6": "::1", "compatible": "::127.0.0.1", "mapped loopback": "::ffff:127.0.0.1",
	"mapped metadata": "::ffff:169.254.169.254", "mapped in hex": "::ffff:7f00:1", "NAT64": "64:ff9b::a9fe:a9fe",
	"local NAT64": "64:ff9b:1::a9fe:a9fe", "discard": "100::1", "Teredo": "2001:0:7f00:1::1", "benchmark 6": "2001:2::1",
	"documentation 6": "2001:db8::1", "6to4": "2002:a9fe:a9fe::1", "documentation 6 new": "3fff::1", "unique local": "fc00::1",
	"metadata 6": "fd00:ec2::254", "link-local 6": "fe80::1", "site-local": "fec0::1", "multicast 6": "ff02::1",
}

// gate23Notations are other ways to write an address that lead inside, which some
// resolver or client understands.
var gate23Notations = []string{
	"2130706433", "0x7f000001", "0x7f.1", "0x7f.0x0.0x0.0x1", "017700000001", "0177.0.0.1", "0177.1", "127.1", "127.0.1", "127.0.0.1.",
	"2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]", "[fe80::1%25lo]",
	"%31%32%37.0.0.1", "１２７.０.０.１", "①②⑦.0.0.1", "127。0。0。1",
}

// gate23World is a listed site that sends its visitors on, and an unlisted service
// inside whose visitors are counted.
type gate23World struct {
	front   string // host:port, listed
	inside  string // host:port, not listed
	visits  atomic.Int64
	policy  *egress.Policy
	dns     *gate23DNS
	options builtin.Options
}

func newGate23World(t *testing.T) *gate23World {
	t.Helper()
	w := &gate23World{dns: newGate23DNS(t)}
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { w.visits.Add(1) }))
	t.Cleanup(inside.Close)
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(rw, r, to, http.StatusTemporaryRedirect)
			return
		}
		_, _ = fmt.Fprint(rw, "welcome")
	}))
	t.Cleanup(front.Close)
	w.front, w.inside = front.Listener.Addr().String(), inside.Listener.Addr().String()
	// Everything public is permitted, under any port: what is refused below is refused
	// for the address alone.
	var err error
	if w.policy, err = egress.Parse("*:*", w.front); err != nil {
		t.Fatal(err)
	}
	w.options = builtin.Options{Egress: w.policy, Resolver: w.dns.resolver()}
	return w
}

// fetch runs web.fetch as an executor would, prepared first.
func (w *gate23World) fetch(t *testing.T, target string) (tool.Result, error) {
	t.Helper()
	for _, x := range builtin.All(w.options) {
		spec := x.Spec()
		if spec.Name != "web.fetch" {
			continue
		}
		exec := &tool.Execution{AttemptNumber: 1, MaximumOutputBytes: spec.MaximumOutputBytes, Target: spec.TargetKind}
		arguments, err := json.Marshal(map[string]string{"url": target})
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := x.(tool.Preparer); ok {
			if err := p.Prepare(t.Context(), arguments, exec); err != nil {
				return tool.Result{}, err
			}
		}
		return x.Execute(t.Context(), arguments, exec)
	}
	t.Fatal("there is no web.fetch")
	return tool.Result{}, nil
}

// mustRefuse requires that neither web.fetch nor a client over the transport (as server
// endpoints and token endpoints are reached) gets anywhere, directly or redirected.
func (w *gate23World) mustRefuse(t *testing.T, target string) {
	t.Helper()
	for _, start := range []string{target, "http://" + w.front + "/?to=" + url.QueryEscape(target)} {
		r, err := w.fetch(t, start)
		if err != nil || r.OK {
			t.Errorf("web.fetch of %s: %+v, %v", start, r, err)
			continue
		}
		if code := r.Failure.ReasonCode; code != "tool.permission.egress" && code != "tool.invalid_arguments.url" &&
			code != "tool.transport.protocol" { // a redirect whose target is no URL at all
			t.Errorf("web.fetch of %s failed for another reason: %s", start, code)
		}
		if err := w.post(t, start); err == nil {
			t.Errorf("a token request to %s was answered", start)
		}
	}
}

// post sends a form with a credential, following redirects.
func (w *gate23World) post(t *testing.T, target string) error {
	t.Helper()
	dialer := &egress.Dialer{Policy: w.policy, Resolver: w.dns.resolver()}
	client := &http.Client{
		Transport: egress.NewTransport(dialer, egress.TransportOptions{}), CheckRedirect: egress.LimitRedirects(3),
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader("grant_type=client_credentials"))
	if err != nil {
		return err
	}
	request.SetBasicAuth("client", "secret")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode/100 == 3 {
		return errors.New("redirected nowhere")
	}
	return nil
}

// TestGate23_SSRF: no URL, no redirect and no answer of a name server makes this
// process connect to an address that is not public and not listed.
func TestGate23_SSRF(t *testing.T) {
	t.Parallel()
	w := newGate23World(t)
	_, insidePort, err := net.SplitHostPort(w.inside)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after every case, and before the servers are closed
		if n := w.visits.Load(); n != 0 {
			t.Errorf("the service inside was reached %d times", n)
		}
	})
	t.Run("a listed address is reached", func(t *testing.T) {
		t.Parallel()
		r, err := w.fetch(t, "http://"+w.front+"/")
		if err != nil || !r.OK || len(r.Content) == 0 || r.Content[0].Text != "welcome" {
			t.Fatalf("the gate would prove nothing: %+v, %v", r, err)
		}
		if err := w.post(t, "http://"+w.front+"/"); err != nil {
			t.Fatalf("the gate would prove nothing: %v", err)
		}
	})
	for kind, address := range gate23Addresses {
		t.Run("address/"+kind, func(t *testing.T) {
			t.Parallel()
			w.mustRefuse(t, "http://"+net.JoinHostPort(address, insidePort)+"/")
			w.mustRefuse(t, "https://"+strings.TrimSuffix(net.JoinHostPort(address, ""), ":")+"/")
		})
		t.Run("behind a name/"+kind, func(t *testing.T) {
			t.Parallel()
			name := strings.ReplaceAll(kind, " ", "-") + ".gate.test"
			w.dns.answer(name, address)
			w.mustRefuse(t, "http://"+net.JoinHostPort(name, insidePort)+"/")
		})
	}
	for _, host := range gate23Notations {
		t.Run("notation/"+host, func(t *testing.T) {
			t.Parallel()
			w.mustRefuse(t, "http://"+host+":"+insidePort+"/")
		})
	}
	for _, name := range []string{"metadata.google.internal", "metadata.goog", "instance-data.ec2.internal", "localhost", "sub.localhost"} {
		t.Run("metadata host/"+name, func(t *testing.T) {
			t.Parallel()
			w.dns.answer(name, "169.254.169.254")
			w.mustRefuse(t, "http://"+name+":"+insidePort+"/latest/meta-data/")
		})
	}
	t.Run("credentials in the URL", func(t *testing.T) {
		t.Parallel()
		w.mustRefuse(t, "http://example.com@127.0.0.1:"+insidePort+"/")
	})
	for _, turn := range [][]string{{"8.8.8.8", "127.0.0.1"}, {"8.8.8.8", "::ffff:127.0.0.1"}, {"8.8.8.8", "169.254.169.254"}} {
		t.Run("rebinding/"+turn[1], func(t *testing.T) {
			t.Parallel()
			name := "rebind-" + strings.ReplaceAll(strings.ReplaceAll(turn[1], ".", "-"), ":", "-") + ".gate.test"
			w.dns.answer(name, turn...)
			r, err := w.fetch(t, "http://"+net.JoinHostPort(name, insidePort)+"/")
			if err != nil || r.OK || r.Failure.ReasonCode != "tool.permission.egress" {
				t.Errorf("%+v, %+v, %v", r, r.Failure, err)
			}
			if asked := w.dns.asked(name); asked < 2 {
				t.Errorf("the name server was asked %d times: the second answer was never given", asked)
			}
		})
	}
}

// gate23DNS is a name server over UDP whose answer to a name changes from question to
// question; the last one stays.
type gate23DNS struct {
	conn net.PacketConn

	mu      sync.Mutex
	answers map[string][]netip.Addr
	count   map[string]int
}

func newGate23DNS(t *testing.T) *gate23DNS {
	t.Helper()
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &gate23DNS{conn: conn, answers: map[string][]netip.Addr{}, count: map[string]int{}}
	var wg sync.WaitGroup
	wg.Go(d.serve)
	t.Cleanup(func() {
		_ = conn.Close()
		wg.Wait()
	})
	return d
}

// answer sets the addresses of name, one per question.
func (d *gate23DNS) answer(name string, addrs ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []netip.Addr
	for _, a := range addrs {
		list = append(list, netip.MustParseAddr(a))
	}
	d.answers[strings.ToLower(name)+"."] = list
}

// asked gives the number of lookups of name.
func (d *gate23DNS) asked(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count[strings.ToLower(name)+"."]
}

// resolver asks this server and no other, and reads no file of the host.
func (d *gate23DNS) resolver() egress.Resolver {
	return gate23Resolver{&net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "udp", d.conn.LocalAddr().String())
	}}}
}

// gate23Resolver makes a name absolute, so that no search domain is tried.
type gate23Resolver struct{ r *net.Resolver }

func (g gate23Resolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return g.r.LookupNetIP(ctx, network, host+".")
}

func (d *gate23DNS) serve() {
	packet := make([]byte, 1500)
	for {
		n, from, err := d.conn.ReadFrom(packet)
		if err != nil {
			return
		}
		if reply, err := d.reply(packet[:n]); err == nil {
			_, _ = d.conn.WriteTo(reply, from)
		}
	}
}

// reply answers one question. A lookup asks for A and AAAA; the turn goes by pairs.
func (d *gate23DNS) reply(packet []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil || len(m.Questions) != 1 {
		return nil, fmt.Errorf("question: %w", err)
	}
	q := m.Questions[0]
	name := strings.ToLower(q.Name.String())
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	d.mu.Lock()
	list := d.answers[name]
	turn := d.count[name]
	if q.Type == dnsmessage.TypeA {
		d.count[name]++
	}
	d.mu.Unlock()
	if len(list) == 0 {
		m.RCode = dnsmessage.RCodeNameError
		return m.Pack()
	}
	head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
	addr := list[min(turn, len(list)-1)]
	switch {
	case q.Type == dnsmessage.TypeA && addr.Is4():
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}})
	case q.Type == dnsmessage.TypeAAAA && addr.Is6() && turn >= len(list)-1:
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
	}
	return m.Pack()
}
