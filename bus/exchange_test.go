package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/subjects"
)

func TestExchange(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	const subject = "toolbus.gateway.gw-1.call"
	begun, release, ready := make(chan struct{}, 10), make(chan struct{}), make(chan struct{})
	start(t, func(ctx context.Context) error {
		return b.ServeExchange(ctx, subject, 1, func() { close(ready) }, func(_ context.Context, d subjects.Delivery, send func([]byte) error) {
			begun <- struct{}{}
			switch string(d.Data) {
			case "count":
				for _, frame := range []string{"1", "2", "3", "end"} {
					if err := send([]byte(frame)); err != nil {
						t.Error(err)
					}
				}
			case "panic":
				panic("a defect")
			case "hold":
				<-release
			}
		})
	})
	<-ready
	ask := func(data string, silence time.Duration) (string, error) {
		var got []string
		err := b.Exchange(within(t, 10*time.Second), subject, []byte(data), silence, func(frame []byte) (bool, error) {
			got = append(got, string(frame))
			return string(frame) == "end", nil
		})
		return strings.Join(got, " "), err
	}
	eventuallyIs := func(data string, silence time.Duration, want string, wantErr error) {
		t.Helper()
		eventually(t, data+" answered", func() bool { // the one slot may still be held by the exchange before
			got, err := ask(data, silence)
			return got == want && errors.Is(err, wantErr)
		})
	}
	eventuallyIs("count", 5*time.Second, "1 2 3 end", nil)
	eventuallyIs("panic", 50*time.Millisecond, "", bus.ErrSilent)
	for len(begun) > 0 {
		<-begun
	}
	eventuallyIs("hold", 50*time.Millisecond, "", bus.ErrSilent)
	if _, err := ask("count", 5*time.Second); !errors.Is(err, &subjects.RPCError{Code: subjects.CodeOverloaded}) {
		t.Errorf("beyond the bound: %v", err)
	}
	close(release)
	stop := errors.New("enough")
	eventually(t, "the caller's error ends it", func() bool {
		err := b.Exchange(within(t, 10*time.Second), subject, []byte("count"), time.Second, func([]byte) (bool, error) { return false, stop })
		return errors.Is(err, stop)
	})
	err := b.Exchange(within(t, 10*time.Second), "toolbus.gateway.gone.call", nil, time.Second, nil)
	if !errors.Is(err, bus.ErrNoService) {
		t.Errorf("a gateway that is gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Exchange(ctx, subject, nil, time.Hour, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
