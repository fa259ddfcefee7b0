// Package ui writes for people: colours where there is a terminal, aligned
// tables, durations one can read, and foreign text that cannot move the cursor
// or pretend to be something else.
//
// It knows nothing of tool calls, and decides nothing but how a text looks.
package ui
