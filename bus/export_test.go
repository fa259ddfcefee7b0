package bus

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Conn and JetStream let tests look at, and break, what the bus hides.
func (b *Bus) Conn() *nats.Conn { return b.conn }

// JetStream gives the API of the connection.
func (b *Bus) JetStream() jetstream.JetStream { return b.js }

// StreamMessages counts the messages of a stream.
func (b *Bus) StreamMessages(ctx context.Context, name string) (int, error) {
	s, err := b.js.Stream(ctx, name)
	if err != nil {
		return 0, err
	}
	return int(s.CachedInfo().State.Msgs), nil
}

// LongestRetry is the bound of a retry's delay.
const LongestRetry = longestRetry
