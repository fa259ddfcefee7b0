package bus_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/toolbus/toolbus/bus"
	"github.com/toolbus/toolbus/bus/bustest"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/subjects/topology"
)

func TestProvisionAndCheck(t *testing.T) {
	t.Parallel()
	account := bustest.NewAccount(t, bustest.Small())
	b := account.Connect(t, bus.Options{Name: "provisioner"})
	ctx := within(t, 20*time.Second)
	again, err := b.Provision(ctx, account.Topology)
	if err != nil || len(again) != 0 {
		t.Fatalf("provisioning twice: %v, %v", again, err)
	}
	if err := b.Check(ctx, account.Topology); err != nil {
		t.Fatalf("check: %v", err)
	}
	params := bustest.Small()
	params.AckWait = 7 * time.Second
	params.WorkBytes *= 2
	changed := topology.Build(params)
	err = b.Check(ctx, changed)
	if !errors.Is(err, topology.ErrDiffers) {
		t.Fatalf("check of other parameters: %v", err)
	}
	for _, want := range []string{"TOOLBUS_PROPOSE: max_bytes is", "TOOLBUS_PROPOSE/gatekeeper-proposals: ack_wait is 30000000000, declared 7000000000"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	publishMany(t, b, 2)
	diff, err := b.Provision(ctx, changed)
	if err != nil || len(diff) == 0 {
		t.Fatalf("provision the change: %v, %v", diff, err)
	}
	if err := b.Check(ctx, changed); err != nil {
		t.Errorf("check after the change: %v", err)
	}
	if n := count(t, b, subjects.StreamPropose); n != 2 {
		t.Errorf("the change lost messages: %d of 2", n)
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	account := bustest.NewAccount(t, bustest.Small())
	b := account.Connect(t, bus.Options{Name: "checker"})
	ctx := within(t, 20*time.Second)
	if err := b.JetStream().DeleteConsumer(ctx, subjects.StreamCommand, subjects.DurableCommands); err != nil {
		t.Fatal(err)
	}
	if err := b.JetStream().DeleteStream(ctx, subjects.StreamEvent); err != nil {
		t.Fatal(err)
	}
	err := b.Check(ctx, account.Topology)
	for _, want := range []string{"TOOLBUS_EVENT: missing", "TOOLBUS_COMMAND/gatekeeper-commands: missing"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	diff, err := b.Provision(ctx, account.Topology)
	if err != nil || len(diff) != 2 {
		t.Errorf("repair: %v, %v", diff, err)
	}
}

// Events that nobody listens to are stored all the same.
func TestHistoryNeedsNoListener(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	mustPublish(t, b, event(t, "acme", "run.failed"))
	if n := count(t, b, subjects.StreamEvent); n != 1 {
		t.Errorf("stream holds %d events, want 1", n)
	}
}
