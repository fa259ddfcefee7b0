package egress

import "net/netip"

// special lists what is not a public destination inside the two spaces that are
// otherwise taken as public: all of IPv4, and 2000::/3 of IPv6.
var special = parseAll(
	"0.0.0.0/8",        // this network
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // carrier-grade NAT, and a metadata service within
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // a cloud platform's wire server, on a public address
	"169.254.0.0/16",   // link-local, and the usual metadata address
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments, and a metadata service within
	"192.0.2.0/24",     // documentation
	"192.31.196.0/24",  // AS112
	"192.52.193.0/24",  // multicast tunnelling
	"192.88.99.0/24",   // 6to4 relay
	"192.168.0.0/16",   // private
	"192.175.48.0/24",  // AS112
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, and broadcast
	"2001::/23",        // protocol assignments: Teredo, benchmarks, ORCHID
	"2001:db8::/32",    // documentation
	"2002::/16",        // 6to4, which carries an IPv4 destination
	"3ffe::/16",        // returned to the registry
	"3fff::/20",        // documentation
)

// global is the only part of IPv6 in which public addresses are assigned. What
// lies outside needs no list: unspecified, loopback, IPv4-mapped and
// -compatible, NAT64, discard, unique local, link-local, site-local, multicast,
// segment routing.
var global = netip.MustParsePrefix("2000::/3")

func parseAll(prefixes ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(prefixes))
	for i, p := range prefixes {
		list[i] = netip.MustParsePrefix(p)
	}
	return list
}

// NotPublic reports whether addr is anything but an ordinary public unicast
// address: private, loopback, link-local, shared, multicast, documentation,
// benchmark and reserved space, addresses that embed an IPv4 destination
// (mapped, compatible, NAT64, 6to4, Teredo), addresses with a zone, and the
// metadata services of the large platforms. The zero Addr is not public.
func NotPublic(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Zone() != "" {
		return true
	}
	if addr.Is6() && !global.Contains(addr) {
		return true
	}
	for _, p := range special {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
