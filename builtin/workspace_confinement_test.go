package builtin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolbus/toolbus/builtin"
)

// escapes are paths that lead, or seem to lead, out of a workspace that holds the
// links absolute (to the outside), up (to its parent) and inner.
var escapes = []string{
	"../outside/secret", "/etc/passwd", "a/../../outside/secret", "..", "a/..", "absolute/secret", "up/outside/secret",
	"secretlink", `..\outside\secret`, "absolute/../secret", "loop/x", "x\x00y", "",
}

// TestEscapes tries every workspace tool on every path: none reads or changes anything
// outside.
func TestEscapes(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	outside := filepath.Join(filepath.Dir(b.dir), "outside")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"absolute": outside, "up": "..", "secretlink": secret, "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(b.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, escape := range escapes {
		for name, arguments := range map[string]map[string]any{
			"workspace.list":       {"path": escape, "depth": 3, "limit": 100},
			"workspace.read_text":  {"path": escape},
			"workspace.search":     {"path": escape, "pattern": "canary"},
			"workspace.write_text": {"path": escape, "text": "overwritten"},
			"workspace.edit_text":  {"path": escape, "old_text": "canary", "new_text": "overwritten"},
			"workspace.delete":     {"path": escape, "recursive": true},
			"artifact.export":      {"path": escape},
		} {
			if name == "workspace.delete" && escape == "secretlink" {
				continue // the link itself may go
			}
			r, err := b.tool(t, name).Execute(t.Context(), json.RawMessage(quote(arguments)), b.exec)
			if err != nil || r.OK {
				t.Errorf("%s %q: %+v, %v", name, escape, r, err)
			} else if strings.Contains(text(r)+r.Failure.Detail, "canary") {
				t.Errorf("%s %q tells the secret", name, escape)
			}
		}
	}
	if content, err := os.ReadFile(secret); err != nil || string(content) != "canary" {
		t.Errorf("outside: %q, %v", content, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

// TestSwappedLinks lets another process exchange a directory for a link to the outside
// as fast as it can while every tool works below it.
func TestSwappedLinks(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	b.exec.MaximumOutputBytes = 1 << 20
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.write(t, "real/f", "harmless")
	swapped, link := filepath.Join(b.dir, "d"), filepath.Join(b.dir, "l")
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(b.dir, "real"), swapped); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		aside := filepath.Join(b.dir, "aside")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(swapped, aside)
			_ = os.Rename(link, swapped)
			_ = os.Rename(swapped, link)
			_ = os.Rename(aside, swapped)
		}
	})
	for range 100 {
		for name, arguments := range map[string]string{
			"workspace.read_text":  `{"path":"d/f"}`,
			"workspace.search":     `{"pattern":"canary","path":"d"}`,
			"workspace.write_text": `{"path":"d/f","text":"harmless"}`,
			"workspace.edit_text":  `{"path":"d/f","old_text":"canary","new_text":"stolen"}`,
			"artifact.export":      `{"path":"d/f"}`,
		} {
			r, err := b.tool(t, name).Execute(t.Context(), json.RawMessage(arguments), b.exec)
			if err == nil && r.OK && strings.Contains(strings.ReplaceAll(text(r), "0 matches", ""), "canary") {
				t.Errorf("%s told the secret", name)
			}
		}
	}
	close(stop)
	wg.Wait()
	for _, stored := range b.artifacts.stored {
		if string(stored) == "canary" {
			t.Error("the secret was exported")
		}
	}
	if content, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(content) != "canary" {
		t.Errorf("outside: %q, %v", content, err)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("outside: %v", entries)
	}
}

// TestReadersNeverSeeAPart reads a file while it is being replaced.
func TestReadersNeverSeeAPart(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{})
	contents := []string{strings.Repeat("a", 50_000), strings.Repeat("b", 20_000)}
	b.write(t, "f", contents[0])
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for n := range 20 {
			b.succeed(t, "workspace.write_text", quote(map[string]string{"path": "f", "text": contents[n%2]}))
		}
	})
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if got := b.read(t, "f"); got != contents[0] && got != contents[1] {
			t.Errorf("a part: %d bytes", len(got))
		}
	}
	wg.Wait()
}

// TestWorkspaceModel writes, edits, deletes and reads at random and compares with a map.
func TestWorkspaceModel(t *testing.T) {
	t.Parallel()
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(outer, builtin.Options{})
		model := map[string]string{}
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			path := rapid.SampledFrom([]string{"a", "d/b"}).Draw(t, "path")
			content, exists := model[path]
			word := rapid.StringMatching(`[xyz]{1,3}`).Draw(t, "word")
			var name string
			arguments, ok := map[string]string{"path": path}, exists
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				name, arguments["text"], ok = "workspace.write_text", word, true
				model[path] = word
			case 1:
				name = "workspace.delete"
				delete(model, path)
			default:
				name, arguments["old_text"], arguments["new_text"] = "workspace.edit_text", word[:1], "-"
				if ok = exists && strings.Count(content, word[:1]) == 1; ok {
					model[path] = strings.Replace(content, word[:1], "-", 1)
				}
			}
			if r, err := b.execute(outer, name, quote(arguments)); err != nil || r.OK != ok {
				t.Fatalf("%s %v on %q: %+v, %v", name, arguments, content, r, err)
			}
		}
		for path, want := range model {
			if got := b.succeed(outer, "workspace.read_text", quote(map[string]string{"path": path})); got != want {
				t.Fatalf("%s holds %q, want %q", path, got, want)
			}
		}
	})
}
