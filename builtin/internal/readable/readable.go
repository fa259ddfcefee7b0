// Package readable turns a page of HTML into the plain text a reader would see:
// scripts, styles, hidden and navigational parts are dropped, blocks become lines,
// headings, lists, tables, quotes and preformatted text keep a light mark. It works
// on the token stream, so that its cost is linear and no nesting can exhaust it.
package readable

import (
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Page is what a page says.
type Page struct {
	// Title is the content of its title element, on one line.
	Title string
	// Text has single blank lines between blocks and no control characters.
	Text string
}

// Options choose what is kept.
type Options struct {
	// Links writes the target of a link behind its text, in parentheses.
	Links bool
}

// Extract reads a page of HTML in UTF-8. It returns the error of r, if any, together
// with what was read before; malformed HTML is no error.
func Extract(r io.Reader, o Options) (Page, error) {
	source, err := io.ReadAll(r)
	page := extract(string(source), o, noise)
	if page.Text == "" {
		// A page that is all navigation, or whose markup never closes it, still says
		// something.
		page = extract(string(source), o, invisible)
	}
	return page, err
}

// invisible elements are never shown.
var invisible = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Noscript: true, atom.Template: true, atom.Svg: true,
	atom.Iframe: true, atom.Object: true, atom.Canvas: true, atom.Select: true, atom.Audio: true,
	atom.Video: true, atom.Math: true, atom.Textarea: true,
}

// noise is what is around the content.
var noise = union(invisible, atom.Nav, atom.Aside, atom.Footer, atom.Form, atom.Button, atom.Dialog, atom.Menu)

func union(base map[atom.Atom]bool, more ...atom.Atom) map[atom.Atom]bool {
	all := make(map[atom.Atom]bool, len(base)+len(more))
	for a := range base {
		all[a] = true
	}
	for _, a := range more {
		all[a] = true
	}
	return all
}

// void elements have no end tag.
var void = map[atom.Atom]bool{
	atom.Area: true, atom.Base: true, atom.Br: true, atom.Col: true, atom.Embed: true, atom.Hr: true,
	atom.Img: true, atom.Input: true, atom.Link: true, atom.Meta: true, atom.Param: true,
	atom.Source: true, atom.Track: true, atom.Wbr: true,
}

// blocks start and end a line; the value is what a new block is marked with.
var blocks = map[atom.Atom]string{
	atom.Address: "", atom.Article: "", atom.Blockquote: "> ", atom.Body: "", atom.Dd: "  ", atom.Div: "",
	atom.Dl: "", atom.Dt: "", atom.Figcaption: "", atom.Figure: "", atom.H1: "# ", atom.H2: "## ",
	atom.H3: "### ", atom.H4: "#### ", atom.H5: "##### ", atom.H6: "###### ", atom.Header: "",
	atom.Li: "- ", atom.Main: "", atom.Ol: "", atom.P: "", atom.Pre: "", atom.Section: "",
	atom.Summary: "", atom.Details: "", atom.Table: "", atom.Tr: "", atom.Ul: "", atom.Caption: "",
}

// paragraphs are set apart by a blank line.
var paragraphs = map[atom.Atom]bool{
	atom.P: true, atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true,
	atom.Pre: true, atom.Blockquote: true, atom.Table: true, atom.Ul: true, atom.Ol: true, atom.Dl: true,
}

// walker holds the state between tokens.
type walker struct {
	options Options
	drop    map[atom.Atom]bool
	out     writer
	title   strings.Builder
	// skipping is the element whose end shows the rest again, depth how often the same
	// name was opened within.
	skipping string
	depth    int
	inTitle  bool
	href     []string
	cells    int
}

func extract(source string, o Options, drop map[atom.Atom]bool) Page {
	w := &walker{options: o, drop: drop}
	tokens := html.NewTokenizer(strings.NewReader(source))
	for {
		switch tokens.Next() {
		case html.ErrorToken: // the end: the source is in memory
			return Page{
				Title: strings.Join(strings.Fields(printable(w.title.String())), " "),
				Text:  w.out.String(),
			}
		case html.TextToken:
			w.text(string(tokens.Text()))
		case html.StartTagToken:
			w.start(tokens.Token(), false)
		case html.SelfClosingTagToken:
			w.start(tokens.Token(), true)
		case html.EndTagToken:
			w.end(tokens.Token())
		case html.CommentToken, html.DoctypeToken:
		}
	}
}

func (w *walker) text(s string) {
	if w.skipping != "" {
		return
	}
	s = printable(s)
	if w.inTitle {
		w.title.WriteString(s)
		return
	}
	w.out.text(s)
}

func (w *walker) start(t html.Token, selfClosing bool) {
	a := t.DataAtom
	closes := void[a] || selfClosing && a == atom.Svg
	if w.skipping != "" {
		if t.Data == w.skipping && !closes {
			w.depth++
		}
		return
	}
	if w.drop[a] || hidden(t) {
		if !closes {
			w.skipping, w.depth = t.Data, 1
		}
		return
	}
	switch a {
	case atom.Title:
		if w.title.Len() > 0 {
			w.skipping, w.depth = t.Data, 1
		}
		w.inTitle = w.title.Len() == 0
	case atom.Br:
		w.out.newline()
	case atom.Hr:
		w.out.paragraph()
	case atom.Img:
		if alt := attribute(t, "alt"); alt != "" {
			w.out.text("[image: " + printable(alt) + "]")
		}
	case atom.A:
		w.href = append(w.href, attribute(t, "href"))
	case atom.Td, atom.Th:
		if w.cells++; w.cells > 1 {
			w.out.text(" | ")
		}
	default:
		w.block(a)
	}
	if a == atom.Pre {
		w.out.pre++
	}
}

func (w *walker) block(a atom.Atom) {
	mark, ok := blocks[a]
	if !ok {
		return
	}
	w.boundary(a)
	w.out.mark(mark)
	if a == atom.Tr {
		w.cells = 0
	}
}

func (w *walker) boundary(a atom.Atom) {
	if paragraphs[a] {
		w.out.paragraph()
	} else {
		w.out.newline()
	}
}

func (w *walker) end(t html.Token) {
	a := t.DataAtom
	if w.skipping != "" {
		if t.Data == w.skipping {
			if w.depth--; w.depth == 0 {
				w.skipping = ""
			}
		}
		return
	}
	switch a {
	case atom.Title:
		w.inTitle = false
	case atom.A:
		if n := len(w.href); n > 0 {
			href := w.href[n-1]
			w.href = w.href[:n-1]
			if w.options.Links && href != "" && !strings.HasPrefix(href, "#") {
				w.out.text(" (" + printable(href) + ")")
			}
		}
	case atom.Pre:
		w.out.pre = max(w.out.pre-1, 0)
	}
	if mark, ok := blocks[a]; ok {
		w.boundary(a)
		w.out.unmark(mark)
	}
}

func attribute(t html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return strings.TrimSpace(a.Val)
		}
	}
	return ""
}

// hidden reports whether the element says that it is not shown. What the reader of
// the page cannot see, the reader of the text should not either.
func hidden(t html.Token) bool {
	for _, a := range t.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			if strings.EqualFold(strings.TrimSpace(a.Val), "true") {
				return true
			}
		case "style":
			style := strings.ToLower(strings.ReplaceAll(a.Val, " ", ""))
			if strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
				return true
			}
		}
	}
	return false
}

// printable drops control characters but for tab and line feed, and characters that
// reorder or hide their neighbours.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			return -1
		case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x2069, r == 0xfeff:
			return -1
		case r >= 0xe0000 && r <= 0xe007f: // tag characters spell invisible ASCII
			return -1
		}
		return r
	}, s)
}
