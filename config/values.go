package config

import (
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// Seconds is a span of time as a configuration writes it; fractions are allowed.
type Seconds float64

// Duration converts.
func (s Seconds) Duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// Endpoint is the address of an engine. It may carry a password, so it prints
// without one; [Endpoint.Reveal] is the only way to the whole.
type Endpoint string

// Reveal gives the whole address. Call it where a connection is opened.
func (e Endpoint) Reveal() string { return string(e) }

// String gives the address without user information, part by part where it
// lists several. What does not parse as an address is not shown at all.
func (e Endpoint) String() string {
	if e == "" {
		return ""
	}
	var parts []string
	for part := range strings.SplitSeq(string(e), ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Host == "" && u.RawQuery == "" {
			parts = append(parts, "[redacted]")
			continue
		}
		u.User = nil
		if query := u.Query(); query.Has("password") {
			query.Set("password", "[redacted]")
			u.RawQuery = query.Encode()
		}
		parts = append(parts, u.String())
	}
	return strings.Join(parts, ",")
}

// GoString redacts too.
func (e Endpoint) GoString() string { return e.String() }

// LogValue redacts too.
func (e Endpoint) LogValue() slog.Value { return slog.StringValue(e.String()) }

// MarshalText redacts too.
func (e Endpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// MaximumTrust is the highest trust that a proposal of the tenant may claim.
func (c Config) MaximumTrust(tenant string) string {
	if trust := c.Tenants[tenant].MaximumTrust; trust != "" {
		return trust
	}
	return "user"
}

// BridgeApprovalHold is how long a bridged call of the tenant holds its sandbox.
func (c Config) BridgeApprovalHold(tenant string) time.Duration {
	if hold := c.Tenants[tenant].BridgeApprovalHoldSeconds; hold != nil {
		return hold.Duration()
	}
	return c.Bridge.ApprovalHoldSeconds.Duration()
}

// Profile is the policy profile of the tenant's sessions that name none.
func (c Config) Profile(tenant string) string {
	if profile := c.Tenants[tenant].Profile; profile != "" {
		return profile
	}
	return c.Policy.DefaultProfile
}
