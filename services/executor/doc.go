// Package executor claims authorized calls and carries them through steps 9 to
// 14.
//
// It owns a call from the claim to the terminal row, by a lease that it keeps
// with heartbeats and gives up by its own clock before the lease ends. A hint is
// acknowledged right after the claim commits: from there on the call belongs to
// the lease and not to the bus. A worker that finds itself fenced writes nothing
// and says so.
//
// Slots bound the calls under way. A hint for which no slot is free goes back to
// the bus, so that another executor can have it; a tenant at its share has its
// hints parked and is served as its own slots free up.
//
// To stop, the service takes no more hints, keeps its leases while what runs
// finishes, and only then cuts. What was cut is not recorded as anything: its
// lease runs out and recovery decides by the row.
package executor
