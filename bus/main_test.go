package bus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/toolbus/toolbus/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func count(t testing.TB, b *bus.Bus, stream string) int {
	t.Helper()
	n, err := b.StreamMessages(within(t, 5*time.Second), stream)
	if err != nil {
		t.Fatalf("count messages: %v", err)
	}
	return n
}

func onText(to chan<- string) func(*nats.Msg) {
	return func(m *nats.Msg) { to <- string(m.Data) }
}

func contains(text, part string) bool { return strings.Contains(text, part) }
