package egress

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

type ruleKind int

const (
	ruleName ruleKind = iota
	ruleSuffix
	ruleAny
	ruleNetwork
)

// The two values of rule.port that are no port.
const (
	defaultPorts uint16 = 0
	anyPort      uint16 = 1<<16 - 1
)

// rule is one pattern, parsed.
type rule struct {
	kind    ruleKind
	name    string // of ruleName; of ruleSuffix with the leading dot
	network netip.Prefix
	port    uint16
}

// destination is a host as a request names it: a name or an address.
type destination struct {
	name string
	addr netip.Addr
}

func (d destination) String() string {
	if d.addr.IsValid() {
		return d.addr.String()
	}
	return d.name
}

func (r rule) matchesHost(d destination) bool {
	switch r.kind {
	case ruleAny:
		return true
	case ruleNetwork:
		return d.addr.IsValid() && r.network.Contains(d.addr)
	case ruleName:
		return !d.addr.IsValid() && d.name == r.name
	case ruleSuffix:
		return !d.addr.IsValid() && strings.HasSuffix(d.name, r.name) && len(d.name) > len(r.name)
	}
	return false
}

func (r rule) matchesPort(port uint16, scheme string) bool {
	switch r.port {
	case anyPort:
		return true
	case defaultPorts:
		if scheme == "http" {
			return port == 80 && (r.kind == ruleName || r.kind == ruleNetwork)
		}
		return port == 443
	default:
		return port == r.port
	}
}

var (
	errHost     = errors.New("host is neither a name nor an address")
	errPort     = errors.New("port is neither * nor a number from 1 to 65534")
	errWildcard = errors.New("a wildcard is * alone or the first label")
)

// parseRule gives the rules of one pattern: one, or more for localhost.
func parseRule(pattern string) ([]rule, error) {
	host, portText, err := splitPattern(pattern)
	if err != nil {
		return nil, err
	}
	port := defaultPorts
	if portText != "" {
		if port, err = parsePort(portText); err != nil {
			return nil, err
		}
	}
	if prefix, ok := parseNetwork(host); ok {
		return []rule{{kind: ruleNetwork, network: prefix, port: port}}, nil
	}
	if host == "*" {
		return []rule{{kind: ruleAny, port: port}}, nil
	}
	kind, name := ruleName, host
	if rest, ok := strings.CutPrefix(host, "*."); ok {
		kind, name = ruleSuffix, rest
	}
	if strings.Contains(name, "*") {
		return nil, errWildcard
	}
	d, err := parseHost(name)
	if err != nil || d.addr.IsValid() {
		return nil, errHost
	}
	if kind == ruleSuffix {
		return []rule{{kind: kind, name: "." + d.name, port: port}}, nil
	}
	rules := []rule{{kind: kind, name: d.name, port: port}}
	if d.name == "localhost" {
		rules = append(
			rules,
			rule{kind: ruleNetwork, network: netip.MustParsePrefix("127.0.0.0/8"), port: port},
			rule{kind: ruleNetwork, network: netip.MustParsePrefix("::1/128"), port: port},
		)
	}
	return rules, nil
}

// splitPattern separates host and port. A bare IPv6 address or network, which is
// full of colons, has no port; with one it stands in brackets.
func splitPattern(s string) (host, port string, err error) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		inner, tail, found := strings.Cut(rest, "]")
		if !found {
			return "", "", errHost
		}
		if tail == "" {
			return inner, "", nil
		}
		port, ok = strings.CutPrefix(tail, ":")
		if !ok || port == "" {
			return "", "", errPort
		}
		return inner, port, nil
	}
	if _, ok := parseNetwork(s); ok {
		return s, "", nil
	}
	host, port, found := strings.Cut(s, ":")
	if found && port == "" {
		return "", "", errPort
	}
	return host, port, nil
}

func parseNetwork(s string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked(), !p.Addr().Is4In6()
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" || a.Is4In6() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, a.BitLen()), true
}

func parsePort(s string) (uint16, error) {
	if s == "*" {
		return anyPort, nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == uint64(defaultPorts) || n == uint64(anyPort) {
		return 0, errPort
	}
	return uint16(n), nil
}

// parseHost reads a host the way a careful client does: an address in its one
// canonical notation, or a name. The other notations of IPv4 (127.1, 0x7f.1,
// 017700000001, 2130706433) are refused rather than handed to a resolver, since
// some resolvers understand them; so are mapped addresses and zones.
func parseHost(host string) (destination, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" || addr.Is4In6() {
			return destination{}, errHost
		}
		return destination{addr: addr}, nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !isASCII(name) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return destination{}, errHost
		}
		name = ascii
	}
	if !isName(name) || endsInNumber(name) {
		return destination{}, errHost
	}
	return destination{name: name}, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func isName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

// endsInNumber reports whether the last label is a number in any notation that
// some resolver reads as part of an IPv4 address.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}
