//go:build !linux

package boottime

import "time"

// The wall clock goes on during sleep; where it is set back, a lease is given
// up late, and the fence still holds.
func now() time.Duration { return time.Duration(time.Now().UnixNano()) }
