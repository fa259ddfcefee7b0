package ui_test

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolbus/toolbus/internal/ui"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, one, many string }{
		{"plain", "hällo wörld", "hällo wörld", "hällo wörld"},
		{"escape sequence", "\x1b[2Jgone", `\u{001B}[2Jgone`, `\u{001B}[2Jgone`},
		{"direction", "pay\u202eeslaf", `pay\u{202E}eslaf`, `pay\u{202E}eslaf`},
		{"isolate", "\u2066x\u2069", `\u{2066}x\u{2069}`, `\u{2066}x\u{2069}`},
		{"zero width", "a\u200bb\ufeffc", `a\u{200B}b\u{FEFF}c`, `a\u{200B}b\u{FEFF}c`},
		{"blank that is none", "a\u00a0b\u3000c", `a\u{00A0}b\u{3000}c`, `a\u{00A0}b\u{3000}c`},
		{"filler and selector", "\u115f\ufe0f\u2800", `\u{115F}\u{FE0F}\u{2800}`, `\u{115F}\u{FE0F}\u{2800}`},
		{"tag", "\U000e0041", `\u{E0041}`, `\u{E0041}`},
		{"lines", "a\n\tb\r", `a\n\tb\r`, "a\n\tb" + `\r`},
		{"no utf-8", "a\xffb", `a\x{FF}b`, `a\x{FF}b`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff([]string{c.one, c.many}, []string{ui.Escape(c.in), ui.EscapeLines(c.in)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEscapeLeavesNothingHidden(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		out := ui.Escape(string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")))
		if !utf8.ValidString(out) || strings.ContainsAny(out, "\x00\x1b\n\r\u202e\u200b") || ui.Escape(out) != out {
			t.Fatalf("%q", out)
		}
	})
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   time.Duration
		want string
	}{
		{0, "0 µs"},
		{900 * time.Microsecond, "900 µs"},
		{12 * time.Millisecond, "12 ms"},
		{1440 * time.Millisecond, "1.4 s"},
		{42 * time.Second, "42 s"},
		{125 * time.Second, "2 m 5 s"},
		{200 * time.Minute, "3 h 20 m"},
		{-12 * time.Millisecond, "-12 ms"},
	} {
		if got := ui.Duration(c.in); got != c.want {
			t.Errorf("%v: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := ui.NewPrinter(&b, nil)
	p.Table("  ", []string{"name", "why"}, [][]ui.Cell{
		{ui.Styled(ui.Red, "größer"), ui.Text("because")},
		{ui.Text("a"), ui.Text("")},
	})
	want := "  NAME    WHY\n  größer  because\n  a\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	if p.Terminal() || p.Paint(ui.Red, "x") != "x" {
		t.Error("a buffer is no terminal")
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		width int
		want  string
	}{{"größe", 5, "größe"}, {"größer", 5, "größ…"}, {"ab", 0, "…"}} {
		if got := ui.Clip(c.in, c.width); got != c.want {
			t.Errorf("%q in %d: %q", c.in, c.width, got)
		}
	}
}
