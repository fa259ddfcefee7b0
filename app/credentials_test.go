package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolbus/toolbus/tool"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCredentials(map[string]string{"named": "env:NAMED", "none": "env:NONE"}, func(name string) string {
		return map[string]string{"NAMED": "from-name", "DIRECT": "from-env"}[name]
	})
	for ref, want := range map[string]string{"named": "from-name", "env:DIRECT": "from-env", "file:" + file: "from-file"} {
		if got, err := c.configured(t.Context(), ref); err != nil || got.Reveal() != want {
			t.Errorf("configured %q: %v", ref, err)
		}
	}
	for ref, want := range map[string]error{"none": errEmptyCredential, "env:NONE": errEmptyCredential, "strange": tool.ErrNoCredential, "file:" + file + ".gone": os.ErrNotExist} {
		if _, err := c.configured(t.Context(), ref); !errors.Is(err, want) {
			t.Errorf("configured %q: %v, want %v", ref, err, want)
		}
	}
	// Only the operator's configuration may name a variable or a file.
	for _, ref := range []string{"env:DIRECT", "file:" + file} {
		if _, err := c.Resolve(t.Context(), ref); !errors.Is(err, tool.ErrNoCredential) {
			t.Errorf("a tool resolved %q: %v", ref, err)
		}
	}
}
