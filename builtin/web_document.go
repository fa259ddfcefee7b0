package builtin

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"golang.org/x/net/html/charset"

	"github.com/toolbus/toolbus/builtin/internal/readable"
)

type bodyKind int

const (
	bodyBinary bodyKind = iota
	bodyText
	bodyHTML
)

// document is the body of a response, with what it is.
type document struct {
	kind      bodyKind
	mediaType string // without parameters
	declared  string // as the server spelled it, for the charset
	body      *watched
}

// plainMediaType is the grammar of a media type that is worth repeating.
var plainMediaType = regexp.MustCompile(`^[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}$`)

// describeBody finds out what a body is: by what the server declares, or by its first
// bytes when it declares nothing usable.
func describeBody(declared string, body io.Reader) *document {
	buffered := bufio.NewReaderSize(body, 1024)
	d := &document{declared: declared, body: &watched{r: buffered}}
	mediaType, _, err := mime.ParseMediaType(declared)
	if err != nil || !plainMediaType.MatchString(mediaType) {
		head, _ := buffered.Peek(512)
		d.declared = http.DetectContentType(head)
		mediaType, _, _ = mime.ParseMediaType(d.declared) // its own answers parse
	}
	d.mediaType = mediaType
	switch {
	case mediaType == "text/html" || mediaType == "application/xhtml+xml":
		d.kind = bodyHTML
	case strings.HasPrefix(mediaType, "text/"), strings.HasSuffix(mediaType, "+json"), strings.HasSuffix(mediaType, "+xml"),
		mediaType == "application/json", mediaType == "application/xml", mediaType == "application/javascript",
		mediaType == "application/x-ndjson", mediaType == "application/yaml", mediaType == "application/toml",
		mediaType == "application/x-www-form-urlencoded":
		d.kind = bodyText
	}
	return d
}

// text reads the body as text, in whatever encoding it is. With an error comes what was
// read before.
func (d *document) text(a fetchArgs) (readable.Page, error) {
	utf8, err := charset.NewReader(d.body, d.declared)
	if err != nil {
		if errors.Is(err, io.EOF) { // an empty body has no encoding
			return readable.Page{}, nil
		}
		return readable.Page{}, err
	}
	var page readable.Page
	if d.kind == bodyHTML && !a.Raw {
		page, err = readable.Extract(utf8, readable.Options{Links: a.Links})
	} else {
		var b []byte
		b, err = io.ReadAll(utf8)
		text := strings.ReplaceAll(strings.ToValidUTF8(string(b), "�"), "\x00", "�")
		page.Text = strings.TrimPrefix(text, "\ufeff")
	}
	if err == nil {
		err = d.body.err // the decoder takes a short body that breaks off for a whole one
	}
	return page, err
}

// excerpt gives the beginning of an error page.
func (d *document) excerpt() string {
	if d.kind == bodyBinary {
		return ""
	}
	d.body.r = io.LimitReader(d.body.r, 16*maximumExternalText)
	page, _ := d.text(fetchArgs{}) // whatever there is
	return strings.ToValidUTF8(page.Text[:min(len(page.Text), maximumExternalText)], "")
}

// broken reports whether it was the body that failed, and not who read it.
func (d *document) broken() bool { return d.body.err != nil }

// watched remembers how reading ended.
type watched struct {
	r   io.Reader
	err error
}

// Read reads.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// gunzip unpacks as it is read; a body that is no gzip fails at the first byte.
type gunzip struct {
	packed io.Reader
	r      *gzip.Reader
}

// Read unpacks.
func (g *gunzip) Read(p []byte) (int, error) {
	if g.r == nil {
		r, err := gzip.NewReader(g.packed)
		if err != nil {
			return 0, err
		}
		g.r = r
	}
	return g.r.Read(p)
}

var _ io.Reader = (*gunzip)(nil)
