package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MinimumMajor is the oldest PostgreSQL release that toolbus works with.
const MinimumMajor = 14

// ErrNotInstalled says that no usable PostgreSQL was found; the text of the
// error that wraps it names the command that installs one.
var ErrNotInstalled = errors.New("PostgreSQL is not installed")

// Binaries are the programs of one PostgreSQL installation.
type Binaries struct {
	// Dir holds postgres, initdb and psql.
	Dir string
	// Major is the release, for example 15.
	Major int
}

func (b Binaries) path(program string) string { return filepath.Join(b.Dir, program) }

// packagedDirs are where distributions and Homebrew put servers that are not
// in PATH.
var packagedDirs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/libexec/postgresql*",
	"/usr/pgsql-*/bin",
	"/usr/local/pgsql/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// Find locates the newest PostgreSQL on the machine: in PATH, where pg_config
// points, and in the usual folders of distributions. The error wraps
// [ErrNotInstalled] when there is none of release [MinimumMajor] or later.
func Find(ctx context.Context) (Binaries, error) {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, realDir(path))
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, pattern := range packagedDirs {
		matches, _ := filepath.Glob(pattern) // the patterns are constants and well formed
		dirs = append(dirs, matches...)
	}
	return newest(ctx, dirs)
}

// realDir resolves links, since a link to postgres seldom has initdb and psql
// beside it.
func realDir(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return filepath.Dir(path)
}

func newest(ctx context.Context, dirs []string) (Binaries, error) {
	slices.Sort(dirs)
	var found []Binaries
	var rejected []string
	for _, dir := range slices.Compact(dirs) {
		b, err := inspect(ctx, dir)
		switch {
		case err != nil:
			rejected = append(rejected, fmt.Sprintf("%s: %v", dir, err))
		case b.Major < MinimumMajor:
			rejected = append(rejected, fmt.Sprintf("%s: release %d is too old", dir, b.Major))
		default:
			found = append(found, b)
		}
	}
	if err := ctx.Err(); err != nil {
		return Binaries{}, fmt.Errorf("localpg: find PostgreSQL: %w", err)
	}
	if len(found) == 0 {
		detail := ""
		if len(rejected) > 0 {
			detail = " (" + strings.Join(rejected, "; ") + ")"
		}
		return Binaries{}, fmt.Errorf("localpg: %w: release %d or later is needed%s; install it with: %s",
			ErrNotInstalled, MinimumMajor, detail, InstallCommand())
	}
	return slices.MaxFunc(found, func(a, b Binaries) int { return cmp.Compare(a.Major, b.Major) }), nil
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

func inspect(ctx context.Context, dir string) (Binaries, error) {
	b := Binaries{Dir: dir}
	for _, program := range []string{"postgres", "initdb", "psql"} {
		if _, err := os.Stat(b.path(program)); err != nil {
			return Binaries{}, fmt.Errorf("no %s", program)
		}
	}
	out, err := exec.CommandContext(ctx, b.path("postgres"), "--version").Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("postgres --version: %w", err)
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return Binaries{}, errors.New("postgres --version: unknown answer")
	}
	b.Major, err = strconv.Atoi(string(match[1]))
	if err != nil {
		return Binaries{}, fmt.Errorf("postgres --version: %w", err)
	}
	return b, nil
}
