package egress

import (
	"crypto/tls"
	"net/http"
	"time"
)

// TransportOptions tune a [Transport]. The zero value is usable.
type TransportOptions struct {
	// TLS is cloned; nil means the system's roots and TLS 1.2 at least.
	TLS *tls.Config
	// KeepAlive keeps connections for further requests; the owner then calls
	// [Transport.Close] when it is done or its allowlist has changed. Without it
	// every connection ends with its response.
	KeepAlive bool
	// MaxConnsPerHost bounds the connections to one host; 0 means 8.
	MaxConnsPerHost int
}

// Transport is an [http.RoundTripper] that requests nothing its policy does not
// permit. Each hop of a chain of redirects comes through it and is checked anew.
// It uses no proxy, decompresses nothing (a bound on a body must be a bound on what
// it unpacks to) and reads at most 64 KiB of response headers.
type Transport struct {
	policy *Policy
	base   *http.Transport
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport makes a transport over d.
func NewTransport(d *Dialer, o TransportOptions) *Transport {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		tlsConfig = o.TLS.Clone()
	}
	perHost := o.MaxConnsPerHost
	if perHost == 0 {
		perHost = 8
	}
	return &Transport{
		policy: d.Policy,
		base: &http.Transport{
			Proxy:                  nil,
			DialContext:            d.DialContext,
			TLSClientConfig:        tlsConfig,
			TLSHandshakeTimeout:    10 * time.Second,
			DisableKeepAlives:      !o.KeepAlive,
			DisableCompression:     true,
			MaxConnsPerHost:        perHost,
			IdleConnTimeout:        90 * time.Second,
			ExpectContinueTimeout:  time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
		},
	}
}

// RoundTrip sends one request. Beside the errors of the network it returns a
// [*RefusedError] or a [*ResolveError], wrapped.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.policy.Check(r.URL); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return t.base.RoundTrip(r)
}

// Close ends idle connections; the transport stays usable.
func (t *Transport) Close() { t.base.CloseIdleConnections() }

// credentialHeaders are what a request must not carry to another origin.
var credentialHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization", "Referer"}

// LimitRedirects makes the CheckRedirect function of an [http.Client] that follows
// at most limit redirects (none for 0) and takes every credential off a request as
// soon as it leaves the origin (scheme, host and port) of the first one. A chain
// that is too long ends in a [*RefusedError].
func LimitRedirects(limit int) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		if len(via) > limit {
			return &RefusedError{Reason: TooManyRedirects, Host: next.URL.Hostname()}
		}
		first := via[0].URL
		if next.URL.Scheme != first.Scheme || next.URL.Host != first.Host {
			for _, h := range credentialHeaders {
				next.Header.Del(h)
			}
		}
		return nil
	}
}
