package executor

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/tool"
)

func hint(tenant string) pipeline.Hint { return pipeline.Hint{Tenant: tenant, Call: tool.NewID()} }

func TestSlotsShare(t *testing.T) {
	t.Parallel()
	s := newSlots(8, 4)
	for range 7 {
		if s.take(hint("a")) != granted {
			t.Fatal("a lone tenant may have all but the reserve")
		}
	}
	if s.take(hint("a")) != parkedHint {
		t.Fatal("the reserve was given to a lone tenant")
	}
	if s.take(hint("b")) != granted {
		t.Fatal("the reserve is for others")
	}
	if s.take(hint("b")) != noSlot {
		t.Fatal("a ninth call of eight")
	}
	for range 3 {
		s.give("a")
	}
	if got := s.next(8); len(got) != 0 {
		t.Fatalf("a is at its share, and %d of its parked hints were served", len(got))
	}
	s.give("a")
	if got := s.next(8); len(got) != 1 || got[0].Tenant != "a" {
		t.Fatalf("parked hints served: %v", got)
	}
}

// TestSlotsNeverOverflow: whatever is taken, given back and served from the
// park, no more calls run than there are slots, no tenant among others has more
// than its share or what it had alone, and no count goes below zero.
func TestSlotsNeverOverflow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(1, 12).Draw(t, "total")
		s := newSlots(total, max(1, total/2))
		running := map[string]int{}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				tenant := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant")
				if s.take(hint(tenant)) == granted {
					running[tenant]++
				}
			},
			"give": func(t *rapid.T) {
				tenant := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant")
				if running[tenant] > 0 {
					running[tenant]--
					s.give(tenant)
				}
			},
			"next": func(*rapid.T) {
				for _, h := range s.next(total) {
					running[h.Tenant]++
				}
			},
			"": func(t *rapid.T) {
				sum := 0
				for tenant, n := range running {
					sum += n
					if s.held[tenant] != n {
						t.Fatalf("%s holds %d, counted as %d", tenant, n, s.held[tenant])
					}
				}
				if sum > total || s.free() != total-sum {
					t.Fatalf("%d run in %d slots, %d said to be free", sum, total, s.free())
				}
			},
		})
	})
}
