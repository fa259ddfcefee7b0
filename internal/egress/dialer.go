package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Resolver turns a name into addresses; a [*net.Resolver] is one. network is
// "ip".
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer makes connections under a [Policy]. The zero value refuses everything.
type Dialer struct {
	Policy *Policy
	// Resolver is the system's when nil.
	Resolver Resolver
	// ResolveTimeout bounds one name resolution; 5 seconds when zero.
	ResolveTimeout time.Duration
	// ConnectTimeout bounds one attempt at one address; 10 seconds when zero.
	ConnectTimeout time.Duration
}

// maximumAttempts bounds how many of a name's addresses are tried.
const maximumAttempts = 8

// ResolveError says that a name has no answer. Its text names the host only.
type ResolveError struct {
	Host string
	// NotFound says that the name does not exist, as opposed to a resolver that
	// gave no answer in time.
	NotFound bool
}

// Error names the host.
func (e *ResolveError) Error() string {
	if e.NotFound {
		return fmt.Sprintf("host %q does not exist", e.Host)
	}
	return fmt.Sprintf("host %q could not be resolved", e.Host)
}

// DialContext connects to address ("host:port") over TCP. It returns a
// [*RefusedError] for a destination that is not permitted, a [*ResolveError] for a
// name without an answer, and otherwise the error of the last address tried. It
// has the signature that [net/http.Transport.DialContext] wants.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &RefusedError{Reason: BadURL}
	}
	port, err := parsePort(portText)
	if err != nil || port == anyPort {
		return nil, &RefusedError{Reason: BadURL, Host: host}
	}
	if err = d.Policy.CheckHost(host, port); err != nil {
		return nil, err
	}
	addrs, err := d.Resolve(ctx, host, port)
	if err != nil {
		return nil, err
	}
	guarded := net.Dialer{Timeout: orElse(d.ConnectTimeout, 10*time.Second), Control: d.control}
	for _, a := range addrs[:min(len(addrs), maximumAttempts)] {
		var conn net.Conn
		conn, err = guarded.DialContext(ctx, network, netip.AddrPortFrom(a, port).String())
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("connect to %q: %w", host, err)
}

// Resolve gives the permitted addresses behind host, at least one, in the order of
// the resolver. The name itself is not checked; see [Policy.CheckHost], and call it
// first: a lookup tells the name to a foreign server. The errors are those of
// [Dialer.DialContext].
func (d *Dialer) Resolve(ctx context.Context, host string, port uint16) ([]netip.Addr, error) {
	dest, err := parseHost(host)
	if err != nil {
		return nil, &RefusedError{Reason: BadHost, Host: host}
	}
	addrs := []netip.Addr{dest.addr}
	if !dest.addr.IsValid() {
		if addrs, err = d.lookup(ctx, dest.name); err != nil {
			return nil, err
		}
	}
	permitted := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		// A resolver may wrap IPv4 answers in IPv6; the socket would unwrap them.
		a = a.Unmap()
		if d.Policy.CheckAddress(a, port) == nil {
			permitted = append(permitted, a)
		}
	}
	if len(permitted) == 0 {
		return nil, &RefusedError{Reason: AddressRefused, Host: host}
	}
	return permitted, nil
}

func (d *Dialer) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	resolver := d.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	bounded, cancel := context.WithTimeout(ctx, orElse(d.ResolveTimeout, 5*time.Second))
	defer cancel()
	addrs, err := resolver.LookupNetIP(bounded, "ip", name)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil || len(addrs) == 0 {
		var dns *net.DNSError
		notFound := err == nil || (errors.As(err, &dns) && dns.IsNotFound)
		return nil, &ResolveError{Host: name, NotFound: notFound}
	}
	return addrs, nil
}

// control is the last word: it sees the address that the socket is about to
// connect to, whatever was resolved before.
func (d *Dialer) control(network, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil || (network != "tcp4" && network != "tcp6") {
		return &RefusedError{Reason: AddressRefused, Host: address}
	}
	return d.Policy.CheckAddress(target.Addr().Unmap(), target.Port())
}

func orElse(d, fallback time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return fallback
}
