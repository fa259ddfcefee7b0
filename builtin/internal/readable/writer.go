package readable

import "strings"

// writer collects text, collapses white space as a browser does and keeps breaks
// from piling up. The zero value is ready.
type writer struct {
	b strings.Builder
	// breaks are line feeds owed before the next text; two make a blank line.
	breaks int
	space  bool
	prefix string
	pre    int
}

// newline ends the line, if anything is on it.
func (w *writer) newline() { w.owe(1) }

// paragraph ends the line and leaves one blank.
func (w *writer) paragraph() { w.owe(2) }

func (w *writer) owe(n int) {
	w.breaks = max(w.breaks, n)
	w.space = false
}

// mark puts a sign before the next text of a block; an inner block adds to the sign of
// an outer one that has no text of its own.
func (w *writer) mark(sign string) {
	if sign == "" {
		return
	}
	if len(w.prefix) < 16 { // however deep the nesting
		w.prefix += sign
	}
}

// unmark takes the sign back that a block without text has left.
func (w *writer) unmark(sign string) { w.prefix = strings.TrimSuffix(w.prefix, sign) }

func (w *writer) text(s string) {
	if w.pre > 0 {
		w.verbatim(s)
		return
	}
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && isSpace(s[j]) {
			j++
		}
		if j > i {
			w.space = true
			i = j
			continue
		}
		for j < len(s) && !isSpace(s[j]) {
			j++
		}
		w.word(s[i:j])
		i = j
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' }

func (w *writer) word(s string) {
	w.settle()
	if w.space && w.b.Len() > 0 && !w.fresh() {
		w.b.WriteByte(' ')
	}
	w.space = false
	w.b.WriteString(s)
}

// fresh reports whether the last thing written already separates.
func (w *writer) fresh() bool {
	s := w.b.String()
	return s[len(s)-1] == '\n' || s[len(s)-1] == ' '
}

func (w *writer) verbatim(s string) {
	if strings.Trim(s, "\n") == "" && w.breaks > 0 {
		return
	}
	w.settle()
	w.space = false
	w.b.WriteString(s)
}

// settle writes the breaks and the sign that are owed.
func (w *writer) settle() {
	if w.b.Len() > 0 {
		for range w.breaks {
			w.b.WriteByte('\n')
		}
	}
	if w.breaks > 0 || w.b.Len() == 0 {
		w.space = false
	}
	w.breaks = 0
	w.b.WriteString(w.prefix)
	w.prefix = ""
}

// String gives the text without space at line ends or at either end.
func (w *writer) String() string {
	lines := strings.Split(w.b.String(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
