package ui

import (
	"strings"
	"unicode/utf8"
)

// Cell is one field of a table.
type Cell struct {
	Text  string
	Style Style
}

// Text makes a plain cell.
func Text(s string) Cell { return Cell{Text: s} }

// Styled makes a cell with a style.
func Styled(style Style, s string) Cell { return Cell{Text: s, Style: style} }

// Table writes rows under a header, columns aligned by the longest cell, each
// line begun with indent. The last column is not padded, so that a long text in
// it does no harm. Cells are written as they are: escape foreign text before.
func (p *Printer) Table(indent string, header []string, rows [][]Cell) {
	widths := make([]int, len(header))
	for i, title := range header {
		widths[i] = utf8.RuneCountInString(title)
	}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
		}
	}
	head := make([]Cell, len(header))
	for i, title := range header {
		head[i] = Styled(Dim, strings.ToUpper(title))
	}
	var b strings.Builder
	for _, row := range append([][]Cell{head}, rows...) {
		b.WriteString(indent + p.align(row, widths) + "\n")
	}
	p.Printf("%s", b.String())
}

func (p *Printer) align(row []Cell, widths []int) string {
	var b strings.Builder
	for i, cell := range row {
		b.WriteString(p.Paint(cell.Style, cell.Text))
		if i < len(row)-1 {
			b.WriteString(Pad("", widths[i]-utf8.RuneCountInString(cell.Text)+2))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Pad fills text with blanks up to width characters.
func Pad(text string, width int) string {
	if missing := width - utf8.RuneCountInString(text); missing > 0 {
		return text + strings.Repeat(" ", missing)
	}
	return text
}
