package topology

import (
	"time"

	"github.com/nats-io/nats.go"
)

// Connection gives how every connection to the bus behaves, of a service and of
// a client: it comes back by itself, finds out within half a minute that the
// server is gone, and never sends what it has reported as failed.
func Connection(name, inboxPrefix string) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.CustomInboxPrefix(inboxPrefix),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(200*time.Millisecond, time.Second),
		// A buffer would send later what was reported as failed.
		nats.ReconnectBufSize(-1),
		nats.RetryOnFailedConnect(true),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(10 * time.Second),
	}
}
