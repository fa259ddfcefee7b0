package bus

import "testing"

// Workers report deliveries in any order; the latest one tells what waits.
func TestWaiting(t *testing.T) {
	t.Parallel()
	var s loopStats
	s.waiting(4, 0) // bound
	for _, said := range [][2]uint64{{2, 3}, {0, 5}, {1, 4}} {
		s.waiting(said[0], said[1])
	}
	if got := s.pendingNow(); got != 0 {
		t.Errorf("%d are said to wait while none does", got)
	}
	s.waiting(7, 0) // bound again: the numbers may begin anew
	if got := s.pendingNow(); got != 7 {
		t.Errorf("%d are said to wait, want 7", got)
	}
}
