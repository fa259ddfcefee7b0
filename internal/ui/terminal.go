package ui

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Style is a way to show a text.
type Style string

// The styles.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Printer writes to one stream, which may be a terminal. Safe for concurrent
// use: what one call writes stays together.
type Printer struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	colour   bool
}

// NewPrinter makes a printer for w. It colours on a terminal, unless env (each
// entry NAME=value) holds a NO_COLOR that is not empty or a TERM that is dumb.
func NewPrinter(w io.Writer, env []string) *Printer {
	p := &Printer{w: w, terminal: isTerminal(w)}
	p.colour = p.terminal && !slices.ContainsFunc(env, func(entry string) bool {
		return strings.HasPrefix(entry, "NO_COLOR=") && entry != "NO_COLOR=" || entry == "TERM=dumb"
	})
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// Terminal reports whether the stream is a terminal.
func (p *Printer) Terminal() bool { return p.terminal }

// Paint gives the text in a style, unchanged where there are no colours.
func (p *Printer) Paint(s Style, text string) string {
	if !p.colour || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Printf formats and writes. A stream that is gone is nobody's to report to, so
// its errors are dropped.
func (p *Printer) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.w, format, args...)
}

// Line writes one line.
func (p *Printer) Line(text string) { p.Printf("%s\n", text) }

// Write implements [io.Writer].
func (p *Printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.Write(b) //nolint:wrapcheck // it is the stream's own error
}
