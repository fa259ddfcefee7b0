package readable_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/builtin/internal/readable"
)

func TestArticle(t *testing.T) {
	t.Parallel()
	source, err := os.Open("testdata/article.html")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	want, err := os.ReadFile("testdata/article.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := readable.Extract(source, readable.Options{Links: true})
	if err != nil {
		t.Fatal(err)
	}
	if page.Title != "An & article of note" {
		t.Errorf("title %q", page.Title)
	}
	if diff := cmp.Diff(strings.TrimRight(string(want), "\n"), page.Text); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestExtract(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, source, title, text string }{
		{name: "empty"},
		{name: "no markup", source: " just \n text ", text: "just text"},
		{name: "links are left out by default", source: `<a href="/x">y</a>`, text: "y"},
		{name: "only the first title", source: "<title>a</title><title>b</title>c", title: "a", text: "c"},
		{name: "navigation alone is better than nothing", source: "<nav>menu</nav>", text: "menu"},
		{name: "navigation never closed", source: "<nav>menu<p>content", text: "menu\n\ncontent"},
		{name: "script in every place", source: "<p>a<script>b</script>c<noscript>d</noscript></p>", text: "ac"},
		{name: "nested elements of a dropped name", source: "<aside>a<aside>b</aside>c</aside>d", text: "d"},
		{name: "hidden void element", source: "<img hidden alt=x>shown", text: "shown"},
		{name: "control characters", source: "a\x00\x07\x1b[31mb&#127;c", text: "a[31mbc"},
		{name: "tag characters", source: "a\U000e0041\U000e0042b", text: "ab"},
		{name: "unclosed markup", source: "<p>a<b>b<p", text: "ab"},
		{name: "end tags without start", source: "</a></pre></p>x", text: "x"},
		{name: "deep nesting", source: strings.Repeat("<ul><li>", 50_000) + "x", text: strings.Repeat("- ", 8) + "x"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			page, err := readable.Extract(strings.NewReader(row.source), readable.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(readable.Page{Title: row.title, Text: row.text}, page); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSourceFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r := io.MultiReader(strings.NewReader("<p>first"), iotest.ErrReader(broken))
	page, err := readable.Extract(r, readable.Options{})
	if !errors.Is(err, broken) || page.Text != "first" {
		t.Errorf("page %+v, error %v", page, err)
	}
}

func FuzzExtract(f *testing.F) {
	source, err := os.ReadFile("testdata/article.html")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(source))
	f.Add("<pre>\n\n<li><nav><nav>")
	f.Fuzz(func(t *testing.T, source string) {
		page, err := readable.Extract(strings.NewReader(source), readable.Options{Links: true})
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(page.Text, "\x00\x1b\x7f") || strings.Contains(page.Title, "\n") {
			t.Fatalf("unprintable: %q, %q", page.Title, page.Text)
		}
	})
}
