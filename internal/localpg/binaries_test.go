package localpg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// installation makes a directory with programs that print a version.
func installation(t *testing.T, version string, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, program := range programs {
		script := fmt.Sprintf("#!/bin/sh\necho '%s'\n", version)
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestNewest(t *testing.T) {
	t.Parallel()
	all := []string{"postgres", "initdb", "psql"}
	old := installation(t, "postgres (PostgreSQL) 13.9", all...)
	fifteen := installation(t, "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", all...)
	eighteen := installation(t, "postgres (PostgreSQL) 18beta1", all...)
	clientOnly := installation(t, "postgres (PostgreSQL) 18.1", "psql")
	stranger := installation(t, "something else", all...)

	for name, tc := range map[string]struct {
		dirs []string
		want Binaries
		says []string
	}{
		"the highest release":  {dirs: []string{fifteen, old, eighteen, clientOnly}, want: Binaries{Dir: eighteen, Major: 18}},
		"a folder named twice": {dirs: []string{fifteen, fifteen}, want: Binaries{Dir: fifteen, Major: 15}},
		"nothing":              {says: []string{"release 14 or later", InstallCommand()}},
		"too old":              {dirs: []string{old}, says: []string{"release 13 is too old"}},
		"only a client":        {dirs: []string{clientOnly}, says: []string{"no postgres"}},
		"not PostgreSQL":       {dirs: []string{stranger}, says: []string{"unknown answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := newest(t.Context(), tc.dirs)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
			if failed := errors.Is(err, ErrNotInstalled); failed != (tc.says != nil) {
				t.Fatalf("error: %v", err)
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestInstallCommand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ goos, release, want string }{
		{"darwin", "", "brew install postgresql@17"},
		{"linux", "ID=debian\n", "sudo apt-get update && sudo apt-get install -y postgresql"},
		{"linux", "NAME=\"Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "sudo apt-get update && sudo apt-get install -y postgresql"},
		{"linux", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "sudo dnf install -y postgresql-server"},
		{"linux", "ID=alpine\n", "sudo apk add postgresql"},
		{"linux", "ID=arch\n", "sudo pacman -S --noconfirm postgresql"},
		{"linux", "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "sudo zypper install -y postgresql-server"},
		{"linux", "VERSION_ID=debian\n", "your package manager (package postgresql, with the server)"},
	} {
		if got := installCommand(tc.goos, []byte(tc.release)); got != tc.want {
			t.Errorf("installCommand(%s, %q) = %q, want %q", tc.goos, tc.release, got, tc.want)
		}
	}
}

func TestParsePidFile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		raw  string
		want pidFile
	}{
		"ready":      {"41\n/d\n1764600000\n5433\n/run/s\n\n  123 4\nready   \n", pidFile{pid: 41, port: 5433, socketDir: "/run/s", status: "ready"}},
		"starting":   {"41\n/d\n1764600000\n5433\n/run/s\n\n  123 4\nstarting\n", pidFile{pid: 41, port: 5433, socketDir: "/run/s", status: "starting"}},
		"unfinished": {"41\n/d\n", pidFile{pid: 41}},
		"empty":      {"", pidFile{}},
		"garbage":    {"x\ny\nz\nw", pidFile{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parsePidFile(tc.raw)
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if got.ready() != (name == "ready") {
				t.Errorf("ready() = %v", got.ready())
			}
		})
	}
}

func TestQuoting(t *testing.T) {
	t.Parallel()
	if got, want := QuoteIdentifier(`a"b`), `"a""b"`; got != want {
		t.Errorf("QuoteIdentifier = %s, want %s", got, want)
	}
	if got, want := QuoteLiteral(`a'b\c`), ` E'a''b\\c'`; got != want {
		t.Errorf("QuoteLiteral = %s, want %s", got, want)
	}
}
