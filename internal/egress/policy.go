package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Reason classifies a refusal. It is a closed set, fit for a metric label.
type Reason string

// The reasons.
const (
	// BadURL is a URL that cannot be taken apart, or carries credentials.
	BadURL Reason = "bad_url"
	// BadHost is a host that is neither a plain name nor a plain address.
	BadHost Reason = "bad_host"
	// BadScheme is a scheme other than https, or http where it is not permitted.
	BadScheme Reason = "bad_scheme"
	// NotListed is a destination that no pattern of the allowlist matches.
	NotListed Reason = "not_listed"
	// AddressRefused is a name or address that leads to no permitted address.
	AddressRefused Reason = "address_refused"
	// TooManyRedirects is a chain of redirects beyond its bound.
	TooManyRedirects Reason = "too_many_redirects"
)

// RefusedError says that a destination is not permitted. It is a verdict about
// configuration, never about the state of the network.
type RefusedError struct {
	Reason Reason
	// Host is the refused host as it was asked for; for operators.
	Host string
}

// Error gives reason and host, for operators.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("egress to %q refused: %s", e.Host, e.Reason)
}

// Policy is an allowlist of destinations. The zero value and nil permit nothing.
// It is immutable.
type Policy struct{ rules []rule }

// Parse reads an allowlist. Each pattern is host[:port], where host is
//
//   - a name: example.com;
//   - a wildcard: *.example.com for every name below it (not itself), or * for
//     every public name and address;
//   - an address or a network: 192.0.2.7, 10.0.0.0/8, ::1, fd00::/8, in
//     brackets before a port: [fd00::/8]:8443;
//
// and port is a decimal number or * for any. Without a port, https on 443 is
// permitted and, for patterns that are no wildcard, http on 80. With a port both
// schemes are.
//
// Addresses and networks permit what they name even where it is not public;
// "localhost" counts as the loopback networks too. Names and wildcards never
// open an address that is not public. An error names the offending pattern.
func Parse(patterns ...string) (*Policy, error) {
	p := &Policy{rules: make([]rule, 0, len(patterns))}
	for _, s := range patterns {
		r, err := parseRule(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("egress pattern %q: %w", s, err)
		}
		p.rules = append(p.rules, r...)
	}
	return p, nil
}

// Check says whether u may be requested: nil, or a [*RefusedError]. It makes no
// network access; the addresses behind a name are checked when they are dialled.
func (p *Policy) Check(u *url.URL) error {
	if u == nil || u.Opaque != "" || u.Host == "" || u.User != nil {
		return &RefusedError{Reason: BadURL}
	}
	var port uint16
	switch u.Scheme {
	case "https":
		port = 443
	case "http":
		port = 80
	default:
		return &RefusedError{Reason: BadScheme, Host: u.Hostname()}
	}
	if s := u.Port(); s != "" {
		n, err := parsePort(s)
		if err != nil || n == anyPort {
			return &RefusedError{Reason: BadURL, Host: u.Hostname()}
		}
		port = n
	}
	host, err := parseHost(u.Hostname())
	if err != nil {
		return &RefusedError{Reason: BadHost, Host: u.Hostname()}
	}
	return p.decide(host, port, u.Scheme)
}

// CheckHost says whether a connection to host and port may be made, under either
// scheme: nil, or a [*RefusedError]. Like [Policy.Check] it looks at the name only,
// unless host is an address.
func (p *Policy) CheckHost(host string, port uint16) error {
	h, err := parseHost(host)
	if err != nil {
		return &RefusedError{Reason: BadHost, Host: host}
	}
	if err := p.decide(h, port, "https"); err != nil {
		return p.decide(h, port, "http")
	}
	return nil
}

// decide finds a rule for the destination. A destination that would be permitted
// under https alone is refused for its scheme, so that the caller can say so.
func (p *Policy) decide(host destination, port uint16, scheme string) error {
	refused := &RefusedError{Reason: NotListed, Host: host.String()}
	if p == nil {
		return refused
	}
	for _, r := range p.rules {
		if !r.matchesHost(host) {
			continue
		}
		if r.matchesPort(port, scheme) {
			return p.admit(host, port)
		}
		if scheme == "http" && r.matchesPort(443, "https") && port == 80 {
			refused.Reason = BadScheme
		}
	}
	return refused
}

// admit applies the address check at once where the host is an address.
func (p *Policy) admit(host destination, port uint16) error {
	if !host.addr.IsValid() {
		return nil
	}
	return p.CheckAddress(host.addr, port)
}

// CheckAddress says whether a connection to addr may be made on behalf of a
// destination that was permitted by name: nil, or a [*RefusedError].
func (p *Policy) CheckAddress(addr netip.Addr, port uint16) error {
	if addr.IsValid() && addr.Zone() == "" && !NotPublic(addr) {
		return nil
	}
	if p != nil {
		for _, r := range p.rules {
			if r.kind == ruleNetwork && r.network.Contains(addr) && (r.matchesPort(port, "http") || r.matchesPort(port, "https")) {
				return nil
			}
		}
	}
	return &RefusedError{Reason: AddressRefused, Host: addr.String()}
}
