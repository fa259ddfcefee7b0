package telemetry_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolbus/toolbus/pipeline"
)

// Whatever order, repetition and loss a stream shows, each call's events come
// once each, in order, up to the last that the stream had.
func TestSequenceProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, nil)
		calls := make([]*call, rapid.IntRange(1, 3).Draw(rt, "calls"))
		for i := range calls {
			calls[i] = w.tables.newCall("acme", succeeded(), append(lifetime()[:3], pipeline.EventStarted, pipeline.EventStarted, pipeline.EventCompleted)...)
		}
		s := w.NewSequencer()
		s.FromTheStart()
		want, got := make([]int, len(calls)), make([][]string, len(calls))
		for range rapid.IntRange(1, 30).Draw(rt, "messages") {
			i := rapid.IntRange(0, len(calls)-1).Draw(rt, "call")
			seq := rapid.IntRange(1, 6).Draw(rt, "seq")
			want[i] = max(want[i], seq)
			out, err := s.Next(t.Context(), calls[i].message(t, seq))
			if err != nil {
				rt.Fatal(err)
			}
			got[i] = append(got[i], out...)
		}
		for i, c := range calls {
			var all []string
			for seq := 1; seq <= want[i]; seq++ {
				all = append(all, c.body(t, seq))
			}
			if diff := cmp.Diff(all, got[i]); diff != "" {
				rt.Fatalf("call %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

// A call that began before the reading did, or was forgotten, is not told anew;
// what comes late of it is not lost.
func TestSequenceOfCallsFromBefore(t *testing.T) {
	t.Parallel()
	for _, forgotten := range []bool{false, true} {
		w := newWorld(t, nil)
		old := w.tables.newCall("acme", succeeded(), lifetime()...)
		s := w.NewSequencer()
		var got []string
		feed := func(c *call, seqs ...int) {
			for _, seq := range seqs {
				out, err := s.Next(t.Context(), c.message(t, seq))
				if err != nil {
					t.Fatal(err)
				}
				if c == old {
					got = append(got, out...)
				}
			}
		}
		want := []string{old.body(t, 3), old.body(t, 2), old.body(t, 4)}
		if forgotten {
			s.FromTheStart()
			s.SetMaximumCalls(2)
			feed(old, 1)
			feed(w.tables.newCall("acme", succeeded(), lifetime()...), 1)
			feed(w.tables.newCall("acme", succeeded(), lifetime()...), 1)
			want = slices.Insert(want, 0, old.body(t, 1))
		}
		feed(old, 3, 2, 3, 2, 4)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("forgotten %t (-want +got):\n%s", forgotten, diff)
		}
		if fills := w.tables.fillsSoFar(); fills != 0 {
			t.Errorf("forgotten %t: the table was read %d times", forgotten, fills)
		}
	}
}

func TestSequenceOfACallThatTheTableLacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	c := w.tables.newCall("acme", succeeded(), lifetime()...)
	delete(w.tables.calls, c.row.ID)
	s := w.NewSequencer()
	s.FromTheStart()
	var got []string
	for _, seq := range []int{3, 1, 1, 4} {
		out, err := s.Next(t.Context(), c.message(t, seq))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, out...)
	}
	if diff := cmp.Diff([]string{c.body(t, 3), c.body(t, 1), c.body(t, 4)}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
