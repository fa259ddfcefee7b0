package egress_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/toolbus/toolbus/internal/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(t *testing.T, patterns ...string) *egress.Policy {
	t.Helper()
	p, err := egress.Parse(patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func reason(err error) egress.Reason {
	if refused, ok := errors.AsType[*egress.RefusedError](err); ok {
		return refused.Reason
	}
	if err != nil {
		return "other: " + egress.Reason(err.Error())
	}
	return ""
}

func TestCheck(t *testing.T) {
	t.Parallel()
	p := parse(
		t, "example.com", "*.wild.test", "api.test:8443", "any.test:*", "10.1.0.0/16:9000", "192.0.2.7", "[fd00::/8]:8443",
		"::1", "localhost:3000", "bücher.example", "8.8.8.8", "*.ported.test:8080",
	)
	for target, want := range map[string]egress.Reason{
		"https://example.com":                  "",
		"https://example.com:443/x?y#z":        "",
		"http://example.com":                   "",
		"https://EXAMPLE.com.":                 "",
		"https://example.com:8443":             egress.NotListed,
		"http://example.com:443":               egress.NotListed,
		"https://example.com:80":               egress.NotListed,
		"https://sub.example.com":              egress.NotListed,
		"https://notexample.com":               egress.NotListed,
		"https://example.com.evil.test":        egress.NotListed,
		"https://a.wild.test":                  "",
		"https://a.b.wild.test":                "",
		"https://wild.test":                    egress.NotListed,
		"https://awild.test":                   egress.NotListed,
		"http://a.wild.test":                   egress.BadScheme,
		"http://a.ported.test:8080":            "",
		"https://a.ported.test":                egress.NotListed,
		"https://api.test:8443":                "",
		"http://api.test:8443":                 "",
		"https://api.test":                     egress.NotListed,
		"http://any.test:1":                    "",
		"https://10.1.2.3:9000":                "",
		"https://10.1.2.3":                     egress.NotListed,
		"https://10.2.2.3:9000":                egress.NotListed,
		"https://192.0.2.7":                    "",
		"http://[fd12::1]:8443":                "",
		"https://[::1]":                        "",
		"https://[::1]:3000":                   "",
		"http://127.0.0.1:3000":                "",
		"http://localhost:3000":                "",
		"http://localhost":                     egress.NotListed,
		"https://xn--bcher-kva.example":        "",
		"https://BÜCHER.example":               "",
		"https://8.8.8.8":                      "",
		"https://8.8.4.4":                      egress.NotListed,
		"https://user@example.com":             egress.BadURL,
		"https://user:pass@example.com":        egress.BadURL,
		"ftp://example.com":                    egress.BadScheme,
		"gopher://example.com":                 egress.BadScheme,
		"file:///etc/passwd":                   egress.BadURL,
		"mailto:a@example.com":                 egress.BadURL,
		"//example.com":                        egress.BadScheme,
		"example.com":                          egress.BadURL,
		"https://":                             egress.BadURL,
		"https://example.com:0":                egress.BadURL,
		"https://example.com:65535":            egress.BadURL,
		"https://2130706433":                   egress.BadHost,
		"https://0x7f000001":                   egress.BadHost,
		"https://017700000001":                 egress.BadHost,
		"https://127.1":                        egress.BadHost,
		"https://0x7f.1":                       egress.BadHost,
		"https://127.0.0.1.":                   egress.BadHost,
		"https://0177.0.0.1":                   egress.BadHost,
		"https://example.0x":                   egress.BadHost,
		"https://[::ffff:10.1.2.3]:9000":       egress.BadHost,
		"https://[fe80::1%25eth0]":             egress.BadHost,
		"https://exa_mple.com":                 egress.NotListed,
		"https://exam!ple.com":                 egress.BadHost,
		"https://a..b.test":                    egress.BadHost,
		"https://１２７.0.0.1":                    egress.BadHost,
		"https://example。com":                  "", // an ideographic full stop is one
		"https://" + strings.Repeat("a", 64):   egress.BadHost,
		"https://" + strings.Repeat("a.", 130): egress.BadHost,
	} {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		if got := reason(p.Check(u)); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
	if got := reason((*egress.Policy)(nil).Check(&url.URL{Scheme: "https", Host: "example.com"})); got != egress.NotListed {
		t.Errorf("no policy: %q", got)
	}
	if got := reason(p.Check(nil)); got != egress.BadURL {
		t.Errorf("no URL: %q", got)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		"", " ", ":443", "example.com:", "example.com:0", "example.com:65535", "example.com:x", "a.*.com", "*a.com", "**", "*.*.com",
		"https://example.com", "example.com/path", "[::1", "[::1]443", "[::1]:", "10.0.0.0/33", "127.1", "0x7f.1", "::ffff:10.0.0.1",
		"*.", "*.1", "exam ple.com", "fe80::1%eth0", "a..b",
	} {
		if _, err := egress.Parse("example.com", pattern); err == nil {
			t.Errorf("%q was accepted", pattern)
		} else if !strings.Contains(err.Error(), "egress pattern") {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// addresses are what a server must not be able to make this process connect to.
var addresses = []string{
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "168.63.129.16", "169.254.169.254",
	"172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255",
	"198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
	"::", "::1", "::127.0.0.1", "::ffff:8.8.8.8", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "100::1", "2001::1", "2001:2::1",
	"2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "5f00::1",
}

var public = []string{
	"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "168.63.129.15", "172.15.255.255", "172.32.0.1", "192.0.1.1", "198.17.255.255",
	"198.20.0.1", "223.255.255.255", "2606:4700:4700::1111", "2001:4860:4860::8888", "2a00:1450::1", "2620:fe::fe",
}

func TestNotPublic(t *testing.T) {
	t.Parallel()
	for _, a := range addresses {
		if !egress.NotPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s passes as public", a)
		}
	}
	for _, a := range public {
		if egress.NotPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s is public", a)
		}
	}
	if !egress.NotPublic(netip.Addr{}) || !egress.NotPublic(netip.MustParseAddr("fe80::1%eth0")) {
		t.Error("the zero address or one with a zone passes as public")
	}
}

// TestMappedAddressesAreNeverPublic holds for every IPv4 address, however it is
// embedded.
func TestMappedAddressesAreNeverPublic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var v4 [4]byte
		copy(v4[:], rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4"))
		embed := func(prefix string, at int) netip.Addr {
			b := netip.MustParseAddr(prefix).As16()
			copy(b[at:], v4[:])
			return netip.AddrFrom16(b)
		}
		for _, a := range []netip.Addr{
			embed("::ffff:0:0", 12), embed("::", 12), embed("64:ff9b::", 12), embed("64:ff9b:1::", 12), embed("2002::", 2), embed("2001::", 4),
		} {
			if !egress.NotPublic(a) {
				t.Fatalf("%s passes as public", a)
			}
		}
		a := netip.AddrFrom4(v4)
		if (a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified()) && !egress.NotPublic(a) {
			t.Fatalf("%s passes as public", a)
		}
	})
}

// answers is a resolver whose answers to one question change.
type answers struct {
	next atomic.Int64
	list [][]string
	err  error
}

func (a *answers) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	if a.err != nil {
		return nil, a.err
	}
	if len(a.list) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	n := min(int(a.next.Add(1)), len(a.list))
	var out []netip.Addr
	for _, s := range a.list[n-1] {
		out = append(out, netip.MustParseAddr(s))
	}
	return out, nil
}

// TestDialRefusesAddresses dials every forbidden address, as an address and behind a
// permitted name, under an allowlist that permits every public destination.
func TestDialRefusesAddresses(t *testing.T) {
	t.Parallel()
	all := parse(t, "*:*", "example.com")
	for _, a := range addresses {
		for host, d := range map[string]*egress.Dialer{
			a:             {Policy: all},
			"example.com": {Policy: all, Resolver: &answers{list: [][]string{{a}}}},
		} {
			conn, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(host, "443"))
			if err == nil {
				_ = conn.Close()
			}
			if got := reason(err); got != egress.AddressRefused && got != egress.BadHost {
				// a name behind which there is a mapped public address is that address
				if host == "example.com" && a == "::ffff:8.8.8.8" {
					continue
				}
				t.Errorf("%s behind %s: %q", a, host, got)
			}
		}
	}
}

func TestDial(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close) // after the parallel rows
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, row := range map[string]struct {
		patterns []string
		host     string
		list     [][]string
		err      error
		ctx      context.Context //nolint:containedctx // a row of a table
		want     egress.Reason
	}{
		"a listed address":                        {patterns: []string{"127.0.0.1:" + port}, host: "127.0.0.1"},
		"a listed name with a listed address":     {patterns: []string{"in.test:" + port, "127.0.0.0/8:" + port}, host: "in.test", list: [][]string{{"127.0.0.1"}}},
		"wrapped by the resolver":                 {patterns: []string{"in.test:" + port, "127.0.0.1:" + port}, host: "in.test", list: [][]string{{"::ffff:127.0.0.1"}}},
		"only the permitted of several":           {patterns: []string{"in.test:" + port, "127.0.0.1:" + port}, host: "in.test", list: [][]string{{"127.0.0.2", "169.254.169.254", "127.0.0.1"}}},
		"the next when the first does not answer": {patterns: []string{"in.test:" + port, "127.0.0.0/8:" + port}, host: "in.test", list: [][]string{{"127.0.0.9", "127.0.0.1"}}},
		"localhost":                   {patterns: []string{"localhost:" + port}, host: "localhost", list: [][]string{{"127.0.0.1"}}},
		"the address on another port": {patterns: []string{"in.test:" + port, "127.0.0.1:1"}, host: "in.test", list: [][]string{{"127.0.0.1"}}, want: egress.AddressRefused},
		"a name that leads inside":    {patterns: []string{"in.test:" + port}, host: "in.test", list: [][]string{{"127.0.0.1"}}, want: egress.AddressRefused},
		"a name that is not listed":   {patterns: []string{"127.0.0.1:" + port}, host: "in.test", list: [][]string{{"127.0.0.1"}}, want: egress.NotListed},
		"everything public":           {patterns: []string{"*:*"}, host: "127.0.0.1", want: egress.AddressRefused},
		"no such host":                {patterns: []string{"*:*"}, host: "in.test", err: &net.DNSError{IsNotFound: true, Err: "canary"}, want: `other: host "in.test" does not exist`},
		"no answer":                   {patterns: []string{"*:*"}, host: "in.test", err: errors.New("canary"), want: `other: host "in.test" could not be resolved`},
		"a resolver that hangs":       {patterns: []string{"*:*"}, host: "in.test", want: `other: host "in.test" could not be resolved`},
		"an ended context":            {patterns: []string{"*:*"}, host: "in.test", ctx: ended, want: "other: context canceled"},
		"no policy":                   {host: "in.test", want: egress.NotListed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &egress.Dialer{
				Policy: parse(t, row.patterns...), Resolver: &answers{list: row.list, err: row.err},
				ResolveTimeout: 20 * time.Millisecond,
			}
			ctx := row.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(row.host, port))
			if err == nil {
				_ = conn.Close()
			}
			if got := reason(err); got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

// TestResolve gives what may be dialled and nothing else, in the resolver's order.
func TestResolve(t *testing.T) {
	t.Parallel()
	mixed := &answers{list: [][]string{{"10.0.0.1", "8.8.8.8", "::ffff:127.0.0.1", "2606:4700::1", "::ffff:1.1.1.1"}}}
	d := &egress.Dialer{Policy: parse(t, "*"), Resolver: mixed}
	got, err := d.Resolve(t.Context(), "example.com", 443)
	want := []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("2606:4700::1"), netip.MustParseAddr("1.1.1.1")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	d.Resolver = &answers{list: [][]string{{"10.0.0.1", "::1"}}}
	for _, host := range []string{"example.com", "127.0.0.1"} {
		if got, err := d.Resolve(t.Context(), host, 443); reason(err) != egress.AddressRefused {
			t.Errorf("%s: %v, %v", host, got, err)
		}
	}
	if _, err := d.Resolve(t.Context(), "127.1", 443); reason(err) != egress.BadHost {
		t.Errorf("127.1: %v", err)
	}
}

func TestDialRefusesBadAddresses(t *testing.T) {
	t.Parallel()
	d := &egress.Dialer{Policy: parse(t, "*:*")}
	for _, address := range []string{"", "example.com", "example.com:", "example.com:http", "example.com:0", "example.com:*", "example.com:99999"} {
		if _, err := d.DialContext(t.Context(), "tcp", address); reason(err) != egress.BadURL {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestNoProxy sets the variables that make other clients use a proxy.
func TestNoProxy(t *testing.T) {
	var proxied atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Store(true) }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	p := parse(t, strings.TrimPrefix(proxy.URL, "http://"), "example.com")
	transport := egress.NewTransport(&egress.Dialer{Policy: p, Resolver: &answers{list: [][]string{{"169.254.169.254"}}}}, egress.TransportOptions{})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if reason(err) != egress.AddressRefused || proxied.Load() {
		t.Errorf("error %v, proxied %t", err, proxied.Load())
	}
}

// TestRedirects follows a chain between two origins and looks at what is sent where.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var secondOrigin http.Header
	second := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { secondOrigin = r.Header.Clone() }))
	defer second.Close()
	var within atomic.Value
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/same":
			within.Store(r.Header.Get("Authorization"))
			http.Redirect(w, r, second.URL, http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/inside":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		default:
			http.Redirect(w, r, "/same", http.StatusFound)
		}
	}))
	defer first.Close()
	p := parse(t, strings.TrimPrefix(first.URL, "http://"), strings.TrimPrefix(second.URL, "http://"))
	transport := egress.NewTransport(&egress.Dialer{Policy: p}, egress.TransportOptions{KeepAlive: true})
	defer transport.Close()
	get := func(path string, limit int) error {
		client := &http.Client{Transport: transport, CheckRedirect: egress.LimitRedirects(limit)}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, first.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []string{"Authorization", "Cookie", "Proxy-Authorization"} {
			request.Header.Set(h, "credential")
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	if err := get("/", 2); err != nil || within.Load() != "credential" {
		t.Errorf("%v; within the origin %v was sent", err, within.Load())
	}
	for _, h := range []string{"Authorization", "Cookie", "Proxy-Authorization", "Referer"} {
		if secondOrigin.Get(h) != "" {
			t.Errorf("%s was sent to another origin", h)
		}
	}
	if err := get("/", 1); reason(err) != egress.TooManyRedirects {
		t.Errorf("two redirects where one is allowed: %v", err)
	}
	if err := get("/loop", 10); reason(err) != egress.TooManyRedirects {
		t.Errorf("a loop: %v", err)
	}
	if err := get("/inside", 10); reason(err) != egress.NotListed {
		t.Errorf("a redirect inside: %v", err)
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"https://example.com", "http://[::ffff:7f00:1]:80/", "https://0x7f.1", "https://a@b", "https://xn--a", "https://%31%32%37.0.0.1"} {
		f.Add(seed)
	}
	p, err := egress.Parse("*:*")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.Parse(target)
		if err != nil || p.Check(u) != nil {
			return
		}
		// What every public destination permits is a name, or a public address.
		if u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Hostname() == "" {
			t.Fatalf("%q passes", target)
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && egress.NotPublic(a) {
			t.Fatalf("%q passes", target)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"example.com:443", "*.a.b", "[::1]:*", "10.0.0.0/8", "*", ":", "[", "a:b:c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		p, err := egress.Parse(pattern)
		if (p == nil) == (err == nil) {
			t.Fatalf("%q: %v, %v", pattern, p, err)
		}
		if err == nil && strings.TrimSpace(pattern) == "" {
			t.Fatal("an empty pattern was accepted")
		}
	})
}
