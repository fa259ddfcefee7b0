package builtin_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/builtin"
	"github.com/toolbus/toolbus/tool"
)

// hosts answers names from a table.
type hosts map[string][]netip.Addr

func (h hosts) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	addrs, ok := h[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if addrs == nil {
		return nil, &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}
	}
	return addrs, nil
}

var loopback = []netip.Addr{netip.MustParseAddr("127.0.0.1")}

// page is one answer of the test server.
type page struct {
	contentType string
	status      int
	body        string
	header      map[string]string
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

var pages = map[string]page{
	"/html":       {contentType: "text/html; charset=utf-8", body: `<title>T</title><nav>menu</nav><h1>H</h1><p>See <a href="/x">this</a>.`},
	"/latin":      {contentType: "text/html; charset=iso-8859-1", body: "<p>caf\xe9"},
	"/meta":       {contentType: "text/html", body: "<meta charset=windows-1251><p>\xcf\xf0\xe8\xe2\xe5\xf2"},
	"/json":       {contentType: "application/json", body: "\ufeff{\"a\": \"é\"}"},
	"/problem":    {contentType: "application/problem+json", body: `{}`},
	"/sniffed":    {contentType: "none", body: "<!doctype html><p>sniffed"},
	"/empty":      {contentType: "text/plain"},
	"/nocontent":  {status: http.StatusNoContent},
	"/gzip":       {contentType: "text/plain", body: gzipped("packed"), header: map[string]string{"Content-Encoding": "gzip"}},
	"/bomb":       {contentType: "text/plain", body: gzipped(strings.Repeat("0", 64<<20)), header: map[string]string{"Content-Encoding": "gzip"}},
	"/badgzip":    {contentType: "text/plain", body: "not gzip", header: map[string]string{"Content-Encoding": "gzip"}},
	"/brotli":     {contentType: "text/plain", body: "x", header: map[string]string{"Content-Encoding": "br"}},
	"/cut":        {contentType: "text/plain", body: "short", header: map[string]string{"Content-Length": "500"}},
	"/pdf":        {contentType: "application/pdf", body: "%PDF-1.7\x00\xff"},
	"/type":       {contentType: "canary/canary canary; x", body: "\x00\x01\x02"},
	"/bigpdf":     {contentType: "application/pdf", body: strings.Repeat("\x00", 5<<20)},
	"/missing":    {contentType: "text/html", status: 404, body: "<p>canary page"},
	"/forbidden":  {contentType: "text/plain", status: 403, body: "canary"},
	"/busy":       {contentType: "text/plain", status: 429, body: "canary"},
	"/broken":     {contentType: "image/png", status: 500, body: "\x00canary"},
	"/teapot":     {contentType: "text/plain", status: 418, body: strings.Repeat("canary", 10_000)},
	"/loop":       {status: 302, header: map[string]string{"Location": "/loop"}},
	"/moved":      {status: 301, header: map[string]string{"Location": "/html#part"}},
	"/metadata":   {status: 302, header: map[string]string{"Location": "http://169.254.169.254/latest/"}},
	"/foreign":    {status: 302, header: map[string]string{"Location": "https://canary.example/"}},
	"/userinfo":   {status: 302, header: map[string]string{"Location": "//user:pass@127.0.0.1/"}},
	"/scheme":     {status: 302, header: map[string]string{"Location": "file:///etc/passwd"}},
	"/manyheader": {status: 200, header: map[string]string{"X-Big": strings.Repeat("canary", 20_000)}},
}

// site serves pages at a loopback address that is listed.
func site(t *testing.T) (*httptest.Server, *bench) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, h := range []string{"Authorization", "Cookie"} {
			if r.Header.Get(h) != "" {
				t.Errorf("a credential was sent: %s", h)
			}
		}
		p, ok := pages[r.URL.Path]
		if !ok {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", p.contentType)
		for k, v := range p.header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(cmp.Or(p.status, http.StatusOK))
		_, _ = io.WriteString(w, p.body)
	}))
	t.Cleanup(server.Close)
	b := newBench(t, builtin.Options{Egress: policy(t, strings.TrimPrefix(server.URL, "http://"))})
	return server, b
}

func fetch(t *testing.T, b *bench, url, more string) tool.Result {
	t.Helper()
	r, err := b.execute(t, "web.fetch", `{"url":`+quote(url)+more+`}`)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return r
}

func TestFetchContent(t *testing.T) {
	t.Parallel()
	server, b := site(t)
	for _, row := range []struct{ path, more, text, mediaType, title string }{
		{path: "/html", text: "# H\n\nSee this.", mediaType: "text/html", title: "T"},
		{path: "/html", more: `,"links":true`, text: "# H\n\nSee this (/x).", mediaType: "text/html", title: "T"},
		{path: "/html", more: `,"raw":true`, text: pages["/html"].body, mediaType: "text/html"},
		{path: "/html#fragment", text: "# H\n\nSee this.", mediaType: "text/html", title: "T"},
		{path: "/moved", text: "# H\n\nSee this.", mediaType: "text/html", title: "T"},
		{path: "/latin", text: "café", mediaType: "text/html"},
		{path: "/meta", text: "Привет", mediaType: "text/html"},
		{path: "/json", text: `{"a": "é"}`, mediaType: "application/json"},
		{path: "/problem", text: `{}`, mediaType: "application/problem+json"},
		{path: "/sniffed", text: "sniffed", mediaType: "text/html"},
		{path: "/empty", mediaType: "text/plain"},
		{path: "/nocontent", mediaType: "text/plain"},
		{path: "/gzip", text: "packed", mediaType: "text/plain"},
	} {
		r := fetch(t, b, server.URL+row.path, row.more)
		var got struct {
			URL       string
			MediaType string `json:"media_type"`
			Title     string
		}
		if !r.OK {
			t.Errorf("%s: %+v", row.path, r.Failure)
			continue
		}
		if err := json.Unmarshal(r.Structured, &got); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]string{row.text, row.mediaType, row.title}, []string{text(r), got.MediaType, got.Title}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.path, diff)
		}
		if r.Evidence == "" {
			t.Errorf("%s: no evidence", row.path)
		}
	}
	one, two, other := fetch(t, b, server.URL+"/html", ""), fetch(t, b, server.URL+"/html", ""), fetch(t, b, server.URL+"/latin", "")
	if one.Evidence != two.Evidence || one.Evidence == other.Evidence {
		t.Error("the evidence is not that of the content")
	}
}

func TestFetchArtifacts(t *testing.T) {
	t.Parallel()
	server, b := site(t)
	for path, want := range map[string]string{"/pdf": "application/pdf", "/type": "application/octet-stream"} {
		r := fetch(t, b, server.URL+path, "")
		if !r.OK || len(r.Artifacts) != 1 || r.Artifacts[0].MediaType != want || strings.Contains(text(r), "canary") {
			t.Errorf("%s: %+v", path, r)
		}
		if got := string(b.artifacts.stored[len(b.artifacts.stored)-1]); got != pages[path].body {
			t.Errorf("%s: stored %q", path, got)
		}
	}
}

// TestFetchFailures looks at the classification, and that nothing a server says stands
// anywhere but in the place for external text.
func TestFetchFailures(t *testing.T) {
	t.Parallel()
	server, b := site(t)
	for _, row := range []struct {
		url, code string
		retryable bool
		external  string
	}{
		{url: "/missing", code: "tool.not_found.http", external: "canary page"},
		{url: "/forbidden", code: "tool.permission.http", external: "canary"},
		{url: "/busy", code: "tool.upstream_error.rate_limited", retryable: true, external: "canary"},
		{url: "/broken", code: "tool.upstream_error.http", retryable: true},
		{url: "/teapot", code: "tool.upstream_error.http", external: strings.Repeat("canary", 10_000)[:4096]},
		{url: "/loop", code: "tool.upstream_error.too_many_redirects"},
		{url: "/metadata", code: "tool.permission.egress"},
		{url: "/foreign", code: "tool.permission.egress"},
		{url: "/userinfo", code: "tool.invalid_arguments.url"},
		{url: "/scheme", code: "tool.invalid_arguments.url"},
		{url: "/manyheader", code: "tool.transport.protocol", retryable: true},
		{url: "/aborted", code: "tool.transport.protocol", retryable: true},
		{url: "/cut", code: "tool.transport.body", retryable: true},
		{url: "/badgzip", code: "tool.transport.body", retryable: true},
		{url: "/brotli", code: "tool.upstream_error.encoding"},
		{url: "/bomb", code: "tool.output_too_large"},
		{url: "/bigpdf", code: "tool.output_too_large"},
		{url: "https://example.com/", code: "tool.permission.egress"},
		{url: "https://user:pass@example.com/", code: "tool.invalid_arguments.url"},
		{url: "ftp://example.com/", code: "tool.permission.scheme"},
		{url: "not a url\x7f", code: "tool.invalid_arguments.url"},
		{url: "//example.com", code: "tool.permission.scheme"},
		{url: "relative", code: "tool.invalid_arguments.url"},
	} {
		url := row.url
		if strings.HasPrefix(url, "/") && !strings.HasPrefix(url, "//") {
			url = server.URL + url
		}
		r := fetch(t, b, url, "")
		if r.OK {
			t.Errorf("%s succeeded", row.url)
			continue
		}
		code := r.Failure.ReasonCode
		if code == "" {
			code = r.Failure.Kind.Code()
		}
		if code != row.code || r.Failure.Retryable != row.retryable || r.Failure.ExternalText != row.external {
			t.Errorf("%s: %s, retryable %t, external %.40q", row.url, code, r.Failure.Retryable, r.Failure.ExternalText)
		}
		if row.code != "tool.output_too_large" && strings.Contains(r.Failure.Detail+text(r)+string(r.Structured), "canary") {
			t.Errorf("%s: foreign text outside its place: %q", row.url, text(r))
		}
	}
	if r := fetch(t, b, server.URL+"/bomb", ""); len(text(r)) != 4<<20 {
		t.Errorf("of the bomb %d bytes are kept", len(text(r)))
	}
}

func TestFetchTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "secure")
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // it tells of every refused handshake
	server.StartTLS()
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	allow := policy(t, "example.com:"+port, "127.0.0.0/8:"+port, "other.test:"+port)
	resolver := hosts{"example.com": loopback, "other.test": loopback}
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	trusting := newBench(t, builtin.Options{Egress: allow, Resolver: resolver, TLS: &tls.Config{RootCAs: roots}})
	if r := fetch(t, trusting, "https://example.com:"+port, ""); !r.OK || text(r) != "secure" {
		t.Errorf("%+v", r.Failure)
	}
	for name, b := range map[string]*bench{
		"https://other.test:":  trusting,
		"https://example.com:": newBench(t, builtin.Options{Egress: allow, Resolver: resolver}),
	} {
		if r := fetch(t, b, name+port, ""); r.OK || r.Failure.ReasonCode != "tool.transport.tls" {
			t.Errorf("%s: %+v", name, r.Failure)
		}
	}
}

func TestFetchResolution(t *testing.T) {
	t.Parallel()
	allow := policy(t, "*.example.com:*", "127.0.0.1:1")
	b := newBench(t, builtin.Options{Egress: allow, Resolver: hosts{"down.example.com": nil, "inner.example.com": loopback}})
	p, ok := b.tool(t, "web.fetch").(tool.Preparer)
	if !ok {
		t.Fatal("the tool does not prepare")
	}
	for url, want := range map[string][2]string{
		"https://down.example.com/":     {"tool.server_unreachable.dns", "tool.transport.dns"},
		"https://missing.example.com/":  {"", "tool.not_found.host"},
		"https://inner.example.com/":    {"", "tool.permission.egress"},
		"https://unlisted.example.org/": {"", "tool.permission.egress"},
		"http://127.0.0.1:1/":           {"", "tool.transport.connect"},
		"https://127.0.0.1:0/":          {"", "tool.invalid_arguments.url"},
	} {
		err := p.Prepare(t.Context(), json.RawMessage(`{"url":`+quote(url)+`}`), b.exec)
		code := ""
		if u, ok := errors.AsType[*tool.Unavailable](err); ok {
			code = u.Code
		} else if err != nil {
			t.Errorf("prepare %s: %v", url, err)
		}
		if got := [2]string{code, b.refuse(t, "web.fetch", `{"url":`+quote(url)+`}`)}; got != want {
			t.Errorf("%s: %v, want %v", url, got, want)
		}
	}
}

// TestFetchAsksNoForeignServerAboutUnlistedNames guards against telling a name server
// what the allowlist keeps in.
func TestFetchAsksNoForeignServerAboutUnlistedNames(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{Egress: policy(t, "example.com"), Resolver: forbidden{t}})
	const arguments = `{"url":"https://c2VjcmV0.attacker.test/"}`
	if p, ok := b.tool(t, "web.fetch").(tool.Preparer); !ok || p.Prepare(t.Context(), json.RawMessage(arguments), b.exec) != nil {
		t.Error("prepare")
	}
	b.refuse(t, "web.fetch", arguments)
}

type forbidden struct{ t *testing.T }

func (f forbidden) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	f.t.Errorf("%s was looked up", host)
	return nil, fmt.Errorf("unexpected lookup of %s", host)
}

func TestFetchStopsWithItsContext(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(w, strings.Repeat("x", 4096))
			_ = http.NewResponseController(w).Flush()
		}
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	b := newBench(t, builtin.Options{Egress: policy(t, strings.TrimPrefix(server.URL, "http://"))})
	b.exec.MaximumOutputBytes = 1 << 20
	for _, path := range []string{"/header", "/body"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		go func() {
			<-arrived
			cancel()
		}()
		_, err := b.tool(t, "web.fetch").Execute(ctx, json.RawMessage(`{"url":`+quote(server.URL+path)+`}`), b.exec)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", path, err)
		}
		cancel()
	}
}
