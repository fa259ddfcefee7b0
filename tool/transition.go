package tool

import "slices"

// transitions holds the legal life of an invocation, once; the CHECK constraint
// of the table is compared with it by a test. Running to running is a takeover:
// the attempt number rises.
var transitions = map[Status][]Status{
	"":                 {WaitingForApproval, Authorized, Denied, Failed},
	Proposed:           {WaitingForApproval, Authorized, Denied, Failed},
	WaitingForApproval: {Authorized, Denied, Failed},
	Authorized:         {Running, Failed, Denied},
	Running:            {Running, Succeeded, Failed, Denied, Uncertain},
	Succeeded:          {},
	Failed:             {},
	Denied:             {},
	Uncertain:          {},
}

// CanBecome reports whether a row of status from may change to status to. The
// empty status stands for "no row yet".
func CanBecome(from, to Status) bool {
	return slices.Contains(transitions[from], to)
}
