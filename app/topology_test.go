package app

import (
	"testing"
	"time"

	"github.com/toolbus/toolbus/config"
	"github.com/toolbus/toolbus/subjects"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	o := Options{Config: config.Default()}
	o.Config.Retention.StreamSeconds = 3600
	for _, s := range Topology(o).Streams {
		history := s.Name == subjects.StreamOutcome || s.Name == subjects.StreamEvent
		if got, want := s.MaxAge, time.Hour; history && got != want {
			t.Errorf("%s keeps messages for %v, want %v", s.Name, got, want)
		}
		if !history && s.MaxAge != 0 {
			t.Errorf("%s drops work after %v", s.Name, s.MaxAge)
		}
	}
}
