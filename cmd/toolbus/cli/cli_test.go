package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestShellWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"/var/lib/toolbus": "/var/lib/toolbus", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "ü": "'ü'",
	} {
		if got := shellWord(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestSemanticVersion(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3-rc.1", "devel": "0.0.0-devel", "main@abc": "0.0.0-main-abc", "": "0.0.0", "1.2": "0.0.0-1-2",
	} {
		if got := semanticVersion(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestDataDir(t *testing.T) {
	t.Parallel()
	p := newProcess(Build{}, Process{Env: []string{"TOOLBUS_DATA=/from/variable", "HOME=/home/a"}})
	for _, c := range []struct{ flag, want string }{{"/from/flag", "/from/flag"}, {"", "/from/variable"}} {
		if got, err := p.dataDir(c.flag); err != nil || got != c.want {
			t.Errorf("%q: %s, %v", c.flag, got, err)
		}
	}
	p = newProcess(Build{}, Process{Env: []string{"HOME=/home/a", "XDG_DATA_HOME=relative"}})
	if got, err := p.dataDir(""); err != nil || !filepath.IsAbs(got) || filepath.Base(got) != "toolbus" {
		t.Errorf("default: %s, %v", got, err)
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	got := without([]string{"PATH=/bin", "TOOLBUS_NATS_URL=x", "TOOLBUS_TEST_COMMAND=1"}, "TOOLBUS_")
	if len(got) != 2 || got[0] != "PATH=/bin" || got[1] != "TOOLBUS_TEST_COMMAND=1" {
		t.Errorf("%v", got)
	}
}

// What an interrupted command left behind is said.
func TestInterruptedAdvice(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	p := newProcess(Build{}, Process{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &said})
	err := advise(fmt.Errorf("no outcome yet: %w", context.Canceled), "the call goes on without us")
	if code := p.report(err); code != exitFailed || !strings.Contains(said.String(), "interrupted") || !strings.Contains(said.String(), "goes on without us") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
}

func TestTimeoutAboveZero(t *testing.T) {
	t.Parallel()
	for _, timeout := range []string{"0s", "-5s"} {
		var said strings.Builder
		code := Run(t.Context(), Build{}, Process{
			Args:  []string{"call", "system.time", "{}", "--timeout=" + timeout, "--data", t.TempDir()},
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &said,
		})
		if code != exitWrongUse || !strings.Contains(said.String(), "--timeout must be above 0") {
			t.Errorf("%s: exit code %d: %s", timeout, code, said.String())
		}
	}
}
