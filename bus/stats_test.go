package bus_test

import (
	"testing"
	"time"

	"github.com/toolbus/toolbus/bus"
)

func TestStalled(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		stats bus.ConsumerStats
		want  bool
	}{
		"nothing pending": {bus.ConsumerStats{}, false},
		"progress":        {bus.ConsumerStats{Pending: 1, LastMessage: now.Add(-time.Second)}, false},
		"stalled":         {bus.ConsumerStats{Pending: 1, LastMessage: now.Add(-time.Minute)}, true},
		"paused":          {bus.ConsumerStats{Pending: 1, LastMessage: now.Add(-time.Minute), Paused: true}, false},
	} {
		if got := c.stats.Stalled(now, 30*time.Second); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
