package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/builtin"
	"github.com/toolbus/toolbus/tool"
)

func (b *bench) write(t *testing.T, name, content string) {
	t.Helper()
	file := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// hidden lists what the tools made for themselves.
func (b *bench) hidden(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(b.dir, "**", ".toolbus-*"))
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Glob(filepath.Join(b.dir, ".toolbus-*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(files, top...)
}

func TestWorkspaceList(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	if got := b.succeed(t, "workspace.list", `{}`); got != "(empty)" {
		t.Errorf("an empty workspace: %q", got)
	}
	b.write(t, "b.txt", "12345")
	b.write(t, "a/inner/deep.txt", "1")
	b.write(t, "a/x", "")
	b.write(t, ".toolbus-left.tmp", "x")
	if err := os.Symlink("/etc", filepath.Join(b.dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		`{}`:                     "directory\ta\t0\nfile\tb.txt\t5\nsymlink\tlink\t0\nother\tpipe\t0",
		`{"path":"./a/"}`:        "directory\ta/inner\t0\nfile\ta/x\t0",
		`{"path":"a","depth":2}`: "directory\ta/inner\t0\nfile\ta/inner/deep.txt\t1\nfile\ta/x\t0",
		`{"depth":20,"limit":2}`: "directory\ta\t0\ndirectory\ta/inner\t0\n(there is more; raise limit or list a subdirectory)",
		`{"path":"a/inner"}`:     "file\ta/inner/deep.txt\t1",
	} {
		if diff := cmp.Diff(want, b.succeed(t, "workspace.list", arguments)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", arguments, diff)
		}
	}
	one, _ := b.execute(t, "workspace.list", `{}`)
	two, _ := b.execute(t, "workspace.list", `{}`)
	b.write(t, "b.txt", "123456")
	three, _ := b.execute(t, "workspace.list", `{}`)
	if one.Evidence == "" || one.Evidence != two.Evidence || one.Evidence == three.Evidence {
		t.Errorf("evidence %q, %q, %q", one.Evidence, two.Evidence, three.Evidence)
	}
}

func TestWorkspaceReadText(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	b.write(t, "f", "one\ntwo\r\nthree")
	b.write(t, "empty", "")
	b.write(t, "binary", "a\x00b")
	b.write(t, "latin", "caf\xe9")
	b.write(t, "huge", strings.Repeat("x", 8<<20+1))
	b.write(t, "long", strings.Repeat("é", 1<<20)+"x")
	if err := syscall.Mkfifo(filepath.Join(b.dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		`{"path":"f"}`:                          "one\ntwo\r\nthree",
		`{"path":"f","start_line":2,"lines":1}`: "two\r\n",
		`{"path":"f","start_line":3}`:           "three",
		`{"path":"f","start_line":99}`:          "",
		`{"path":"empty"}`:                      "",
	} {
		if got := b.succeed(t, "workspace.read_text", arguments); got != want {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
	}
	for name, want := range map[string]string{
		"binary": "tool.invalid_arguments.not_text", "latin": "tool.invalid_arguments.not_text",
		"huge": "tool.output_too_large.file", "pipe": "tool.invalid_arguments.not_a_file",
		"absent": "tool.not_found.path", ".": "tool.invalid_arguments.not_a_file", "f/x": "tool.invalid_arguments.path",
		strings.Repeat("n", 300): "tool.invalid_arguments.path",
	} {
		if got := b.refuse(t, "workspace.read_text", quote(map[string]string{"path": name})); got != want {
			t.Errorf("%.20s: %s, want %s", name, got, want)
		}
	}
	// Beyond the hard ceiling, which is not at the boundary of a character here or there.
	r, err := b.execute(t, "workspace.read_text", `{"path":"long"}`)
	if err != nil || r.OK || r.Failure.Kind != tool.FailOutputTooLarge || len(text(r)) != 4*512<<10 {
		t.Errorf("a long file: %+v, %d bytes, %v", r.Failure, len(text(r)), err)
	}
	r, _ = b.execute(t, "workspace.read_text", `{"path":"f"}`)
	var info struct {
		Bytes, TotalLines int
		SHA256            string
	}
	if err := json.Unmarshal(r.Structured, &info); err != nil || info.Bytes != 14 || r.Evidence == "" {
		t.Errorf("structured %s", r.Structured)
	}
}

func TestWorkspaceWriteText(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	if got := b.succeed(t, "workspace.write_text", `{"path":"a/b/c.txt","text":"hé"}`); got != "wrote 3 bytes to a/b/c.txt" {
		t.Errorf("got %q", got)
	}
	b.write(t, "run.sh", "old")
	if err := os.Chmod(filepath.Join(b.dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.succeed(t, "workspace.write_text", `{"path":"run.sh","text":"new"}`)
	if info, err := os.Stat(filepath.Join(b.dir, "run.sh")); err != nil || info.Mode().Perm() != 0o755 || b.read(t, "run.sh") != "new" {
		t.Errorf("run.sh: %v, %v", info, err)
	}
	for name, want := range map[string]string{
		"a": "tool.invalid_arguments.not_a_file", ".": "tool.invalid_arguments.not_a_file",
		"run.sh/x": "tool.invalid_arguments.path", ".toolbus-x": "tool.invalid_arguments.path",
		"a/.toolbus-x/y": "tool.invalid_arguments.path",
	} {
		if got := b.refuse(t, "workspace.write_text", quote(map[string]string{"path": name, "text": ""})); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if left := b.hidden(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestNothingIsWrittenWithoutAuthority lets the effect boundary refuse.
func TestNothingIsWrittenWithoutAuthority(t *testing.T) {
	t.Parallel()
	lost := errors.New("the lease is lost")
	sink := filepath.Join(t.TempDir(), "sink")
	b := newBench(t, builtin.Options{Demo: builtin.DemoSink{File: sink}})
	b.write(t, "f", "content")
	b.exec.MarkEffectSent = func(context.Context) error { return lost }
	for name, arguments := range map[string]string{
		"workspace.write_text": `{"path":"f","text":"other"}`,
		"workspace.edit_text":  `{"path":"f","old_text":"content","new_text":"other"}`,
		"workspace.delete":     `{"path":"f"}`,
		"sandbox.run_command":  `{"command":"echo other > f"}`,
		"demo.external_write":  `{}`,
	} {
		if _, err := b.execute(t, name, arguments); !errors.Is(err, lost) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := b.read(t, "f"); got != "content" {
		t.Errorf("the file now holds %q", got)
	}
	if _, err := os.Stat(sink); err == nil {
		t.Error("the sink was written to")
	}
	if left := b.hidden(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWorkspaceEditText(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, arguments, want, code string
	}{
		{name: "once", arguments: `{"path":"f","old_text":"two","new_text":"2"}`, want: "one 2 three one"},
		{name: "delete", arguments: `{"path":"f","old_text":" two","new_text":""}`, want: "one three one"},
		{name: "counted", arguments: `{"path":"f","old_text":"one","new_text":"1","count":2}`, want: "1 two three 1"},
		{name: "not unique", arguments: `{"path":"f","old_text":"one","new_text":"1"}`, code: "tool.invalid_arguments.count"},
		{name: "fewer than counted", arguments: `{"path":"f","old_text":"two","new_text":"2","count":2}`, code: "tool.invalid_arguments.count"},
		{name: "absent text", arguments: `{"path":"f","old_text":"four","new_text":"4"}`, code: "tool.not_found.text"},
		{name: "no change", arguments: `{"path":"f","old_text":"two","new_text":"two"}`, code: "tool.invalid_arguments.no_change"},
		{name: "absent file", arguments: `{"path":"g","old_text":"two","new_text":"2"}`, code: "tool.not_found.path"},
		{name: "binary", arguments: `{"path":"bin","old_text":"two","new_text":"2"}`, code: "tool.invalid_arguments.not_text"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			const before = "one two three one"
			b := newBench(t, builtin.Options{})
			b.write(t, "f", before)
			b.write(t, "bin", "two\x00")
			if row.code != "" {
				if got := b.refuse(t, "workspace.edit_text", row.arguments); got != row.code {
					t.Errorf("code %s, want %s", got, row.code)
				}
				row.want = before
			} else {
				b.succeed(t, "workspace.edit_text", row.arguments)
			}
			if got := b.read(t, "f"); got != row.want {
				t.Errorf("the file holds %q, want %q", got, row.want)
			}
			if got := b.succeed(t, "workspace.list", `{}`); strings.Contains(got, ".toolbus") {
				t.Errorf("the list shows %q", got)
			}
		})
	}
}

// TestEditIsRepeatedUnderItsKey executes one edit as recovery does, with the same key
// and a raised attempt. The new text holds the old one: applied again it would grow.
func TestEditIsRepeatedUnderItsKey(t *testing.T) {
	t.Parallel()
	const edit = `{"path":"f","old_text":"a","new_text":"aa"}`
	b := newBench(t, builtin.Options{})
	b.write(t, "f", "a.")
	first := b.succeed(t, "workspace.edit_text", edit)
	b.exec.AttemptNumber = 2
	if again := b.succeed(t, "workspace.edit_text", edit); again != first || b.read(t, "f") != "aa." {
		t.Errorf("repeated: %q, then %q; the file holds %q", first, again, b.read(t, "f"))
	}
	// The earlier attempt died between its record and the change.
	b.write(t, "f", "a.")
	if b.succeed(t, "workspace.edit_text", edit); b.read(t, "f") != "aa." {
		t.Errorf("after a crash before the change the file holds %q", b.read(t, "f"))
	}
	// Somebody changed the file meanwhile.
	b.write(t, "f", "a, but other")
	if got := b.refuse(t, "workspace.edit_text", edit); got != "tool.invalid_arguments.conflict" || b.read(t, "f") != "a, but other" {
		t.Errorf("conflict: %s; the file holds %q", got, b.read(t, "f"))
	}
	// Another call, with another key, is another edit.
	b.exec.IdempotencyKey = strings.Repeat("cd", 32)
	if b.succeed(t, "workspace.edit_text", `{"path":"f","old_text":"a,","new_text":"aa,"}`); b.read(t, "f") != "aa, but other" {
		t.Errorf("the file holds %q", b.read(t, "f"))
	}
}

func TestWorkspaceSearch(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	b.write(t, "a.go", "package a\n\nfunc Alpha() {}\n")
	b.write(t, "dir/b.go", "// func beta\r\nfunc (x) y\n")
	b.write(t, "c.md", "func in prose")
	b.write(t, "binary", "func\x00")
	b.write(t, "long", strings.Repeat("é", 1000)+"needle"+strings.Repeat("ü", 1000))
	if err := os.Symlink("a.go", filepath.Join(b.dir, "link.go")); err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		`{"pattern":"func","include":"*.go"}`:                                               "a.go:3:1: func Alpha() {}\ndir/b.go:1:4: // func beta\ndir/b.go:2:1: func (x) y\n3 matches, 2 files searched, 0 skipped",
		`{"pattern":"func (","path":"dir"}`:                                                 "dir/b.go:2:1: func (x) y\n1 matches, 1 files searched, 0 skipped",
		`{"pattern":"^FUNC \\w+\\(","regexp":true,"case_sensitive":false,"include":"*.go"}`: "a.go:3:1: func Alpha() {}\n1 matches, 2 files searched, 0 skipped",
		`{"pattern":"func","limit":1,"include":"*.go"}`:                                     "a.go:3:1: func Alpha() {}\n1 matches, 2 files searched, 0 skipped; there may be more",
		`{"pattern":"nothing"}`:                                                             "0 matches, 4 files searched, 1 skipped",
	} {
		if diff := cmp.Diff(want, b.succeed(t, "workspace.search", arguments)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", arguments, diff)
		}
	}
	if got := b.succeed(t, "workspace.search", `{"pattern":"needle"}`); len(got) > 500 || !strings.Contains(got, "éneedleü") || strings.Contains(got, "�") {
		t.Errorf("a long line: %d bytes, %q", len(got), got)
	}
	for arguments, want := range map[string]string{
		`{"pattern":"(","regexp":true}`:     "tool.invalid_arguments.pattern",
		`{"pattern":"(?=x)","regexp":true}`: "tool.invalid_arguments.pattern",
		`{"pattern":"x","include":"["}`:     "tool.invalid_arguments.include",
		`{"pattern":"x","path":"absent"}`:   "tool.not_found.path",
		`{"pattern":"x","path":"a.go"}`:     "tool.invalid_arguments.path",
	} {
		if got := b.refuse(t, "workspace.search", arguments); got != want {
			t.Errorf("%s: %s, want %s", arguments, got, want)
		}
	}
}

func TestWorkspaceDelete(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	outside := t.TempDir()
	b.write(t, "f", "x")
	b.write(t, "dir/sub/g", "x")
	b.write(t, "hidden/.toolbus-left.tmp", "x")
	if err := os.Symlink(outside, filepath.Join(b.dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(b.dir, "dir", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		`{"path":"dir"}`:                 "tool.invalid_arguments.not_empty",
		`{"path":"."}`:                   "tool.invalid_arguments.path",
		`{"path":"./","recursive":true}`: "tool.invalid_arguments.path",
		`{"path":"absent"}`:              "tool.not_found.path",
		`{"path":"link/precious"}`:       "tool.permission.outside_workspace",
	} {
		if got := b.refuse(t, "workspace.delete", arguments); got != want {
			t.Errorf("%s: %s, want %s", arguments, got, want)
		}
	}
	for _, arguments := range []string{`{"path":"f"}`, `{"path":"link"}`, `{"path":"dir","recursive":true}`, `{"path":"hidden"}`} {
		b.succeed(t, "workspace.delete", arguments)
	}
	if got := b.succeed(t, "workspace.list", `{}`); got != "(empty)" {
		t.Errorf("left: %s", got)
	}
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Errorf("outside: %v", err)
	}
	b.exec.AttemptNumber = 2
	b.succeed(t, "workspace.delete", `{"path":"f"}`) // its own work of the first attempt
}
