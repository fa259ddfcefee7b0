// Package egress decides where this process may connect to and makes sure that
// it connects nowhere else. It stands between every outbound HTTP request
// (pages, server endpoints, token endpoints) and the network.
//
// Two independent checks apply, and both must pass:
//
//   - [Policy.Check] and [Policy.CheckHost] look at the name: the destination
//     must match a pattern of the allowlist. An empty policy permits nothing.
//   - [Dialer] looks at the address of every single connection, after name
//     resolution and again in the socket's control hook. Addresses that are not
//     public (see [NotPublic]) are refused unless an address or network pattern
//     of the allowlist names them. A name pattern never opens such an address,
//     so a name whose answer changes between check and use (DNS rebinding)
//     gains nothing.
//
// [Transport] joins the two under net/http without a proxy, since a proxy would
// make the connection on our behalf and so defeat the second check.
//
// Everything here is safe for concurrent use.
package egress
