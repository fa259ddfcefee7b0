package systemtest

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolbus/toolbus/subjects"
)

// NATS connects to the account of the system past the bus, until the test ends.
func (s *System) NATS(t testing.TB) *nats.Conn {
	t.Helper()
	c, err := nats.Connect(s.Account.Server.URL(), nats.UserInfo(s.Account.User.Name, s.Account.User.Password.Reveal()))
	if err != nil {
		t.Fatalf("nats: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// Backlog counts the messages of a stream.
func Backlog(t testing.TB, c *nats.Conn, stream string) int {
	t.Helper()
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatalf("jetstream: %v", err)
	}
	info, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatalf("stream %s: %v", stream, err)
	}
	return int(info.CachedInfo().State.Msgs) //nolint:gosec // a test's few messages
}

// AwaitIdle waits until every message was handled and nothing is left to say.
func (s *System) AwaitIdle(t testing.TB) {
	t.Helper()
	c := s.NATS(t)
	Await(t, "empty work queues", func() bool {
		for _, stream := range []string{subjects.StreamPropose, subjects.StreamExecute, subjects.StreamCommand} {
			if Backlog(t, c, stream) != 0 {
				return false
			}
		}
		return true
	})
	s.SQL(t).Await(t, `SELECT count(*) = 0 FROM outbox`)
}
