package topology_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/subjects/topology"
	"github.com/toolbus/toolbus/tool"
)

var update = flag.Bool("update", false, "write the golden topology anew")

// Every change of the topology is a change of this file, and so is seen.
func TestGolden(t *testing.T) {
	t.Parallel()
	sealed, err := topology.Build(topology.Params{}).Sealed()
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(sealed, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const file = "testdata/topology.json"
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("the topology is not the one of %s; write it anew with -update", file)
	}
}

func TestWorkIsNeverDropped(t *testing.T) {
	t.Parallel()
	top := topology.Build(topology.Params{Replicas: 3})
	work := map[string]bool{subjects.StreamPropose: true, subjects.StreamExecute: true, subjects.StreamCommand: true}
	if len(top.Streams) != 5 {
		t.Fatalf("%d streams", len(top.Streams))
	}
	for _, s := range top.Streams {
		if s.MaxBytes <= 0 || s.MaxMsgSize <= 0 || !s.DenyDelete || s.Replicas != 3 || s.Storage != jetstream.FileStorage {
			t.Errorf("%s is unbounded, deletable, unreplicated or in memory", s.Name)
		}
		isWork := s.Retention == jetstream.WorkQueuePolicy && s.Discard == jetstream.DiscardNew && s.MaxAge == 0
		isHistory := s.Retention == jetstream.LimitsPolicy && s.Discard == jetstream.DiscardOld && s.MaxAge == 7*24*time.Hour
		if work[s.Name] != isWork || work[s.Name] == isHistory {
			t.Errorf("%s: retention %v, discard %v, age %v", s.Name, s.Retention, s.Discard, s.MaxAge)
		}
	}
}

// Every message of a work queue has exactly one durable that takes it, and none
// of them burns deliveries or disappears when idle.
func TestDurables(t *testing.T) {
	t.Parallel()
	filters := map[string]string{}
	for _, d := range topology.Build(topology.Params{}).Durables {
		c := d.Config
		if other, taken := filters[c.FilterSubject]; taken {
			t.Errorf("%s and %s overlap", other, c.Durable)
		}
		filters[c.FilterSubject] = c.Durable
		if c.MaxDeliver != -1 || c.AckPolicy != jetstream.AckExplicitPolicy || c.InactiveThreshold != 0 || len(c.BackOff) != 0 || c.MaxAckPending <= 0 {
			t.Errorf("%s: %+v", c.Durable, c)
		}
	}
	for _, target := range tool.Targets() {
		if filters[subjects.ExecuteOf(target)] == "" {
			t.Errorf("nobody executes %s", target)
		}
	}
	if len(filters) != 2+len(tool.Targets()) {
		t.Errorf("%d durables", len(filters))
	}
}

// Of what a server may do, these streams use nothing beyond the list.
func TestFeaturesInUse(t *testing.T) {
	t.Parallel()
	for _, s := range topology.Build(topology.Params{}).Streams {
		if s.AllowMsgTTL || s.AllowMsgCounter || s.AllowAtomicPublish || s.AllowMsgSchedules || s.AllowBatchPublish || s.AllowRollup ||
			s.Mirror != nil || len(s.Sources) > 0 || s.RePublish != nil || s.SubjectTransform != nil {
			t.Errorf("%s uses an unlisted feature", s.Name)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	sealed, err := topology.Build(topology.Params{}).Sealed()
	if err != nil {
		t.Fatal(err)
	}
	want := sealed.Streams[0]
	have := want
	have.Metadata = map[string]string{topology.HashKey: want.Metadata[topology.HashKey], "_nats.ver": "2.15.2"}
	diff, err := topology.CompareStream(want, have)
	if err != nil || len(diff) != 0 || diff.Err() != nil {
		t.Errorf("the server's own metadata counts: %v, %v", diff, err)
	}
	have.MaxBytes++
	have.Metadata = nil
	diff, err = topology.CompareStream(want, have)
	if err != nil || len(diff) != 2 || diff[0].Field != "max_bytes" || diff[1].Field != "metadata" {
		t.Errorf("%v, %v", diff, err)
	}
	if err := diff.Err(); !errors.Is(err, topology.ErrDiffers) || !strings.Contains(err.Error(), "TOOLBUS_PROPOSE: max_bytes is 1073741825, declared 1073741824") {
		t.Error(err)
	}
	other, err := topology.Build(topology.Params{AckWait: time.Second}).Sealed()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := sealed.Durables[0].Config.Metadata, other.Durables[0].Config.Metadata; a[topology.HashKey] == b[topology.HashKey] {
		t.Error("another configuration has the same hash")
	}
	if d := (topology.Difference{Object: "x"}); d.String() != "x: missing" {
		t.Error(d)
	}
}
