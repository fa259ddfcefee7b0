// Package boottime reads a clock that does not stand still while the machine
// sleeps: a lease runs out during a suspend, and its holder has to notice.
package boottime

import "time"

// Now gives the time since some fixed point in the past. Only differences mean
// something.
func Now() time.Duration { return now() }
