package testcluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolbus/toolbus/internal/localpg"
	"github.com/toolbus/toolbus/internal/localpg/testcluster"
)

// userVariable turns the test binary into another test process of the same run.
const userVariable = "TESTCLUSTER_TEST_USER"

func TestMain(m *testing.M) {
	if os.Getenv(userVariable) != "" {
		os.Exit(testcluster.Main(runner(use)))
	}
	code := testcluster.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

type runner func() int

func (r runner) Run() int { return r() }

// use clones a database and prints "built" if it had to build the template, and
// where the server is.
func use() int {
	ctx := context.Background()
	c, err := testcluster.Shared(ctx)
	if err == nil {
		_, err = c.Clone(ctx, testcluster.Template{Key: "one", Build: func(context.Context, string) error {
			fmt.Println("built")
			return nil
		}})
	}
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

// sql runs a statement in a database, by its URL.
func sql(ctx context.Context, address, statement string) (string, error) {
	binaries, err := localpg.Find(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(binaries.Dir, "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", address, "-c", statement)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func cluster(t *testing.T) *testcluster.Cluster {
	t.Helper()
	c, err := testcluster.Shared(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestClone(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	var builds atomic.Int32
	template := testcluster.Template{Key: t.Name(), Build: func(ctx context.Context, address string) error {
		builds.Add(1)
		_, err := sql(ctx, address, "CREATE TABLE seed AS SELECT 42 AS v")
		return err
	}}

	databases := make([]*testcluster.Database, 4)
	var group sync.WaitGroup
	for i := range databases {
		group.Go(func() {
			d, err := c.Clone(t.Context(), template)
			if err != nil {
				t.Error(err)
				return
			}
			databases[i] = d
			if _, err := sql(t.Context(), d.URL(), fmt.Sprintf("INSERT INTO seed VALUES (%d)", i)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if t.Failed() {
		return
	}
	if got := builds.Load(); got != 1 {
		t.Errorf("the template was built %d times", got)
	}
	for i, d := range databases {
		got, err := sql(t.Context(), d.URL(), "SELECT string_agg(v::text, ',' ORDER BY v) FROM seed")
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%d,42", i); got != want {
			t.Errorf("database %d holds %s, want %s: clones are not apart", i, got, want)
		}
		if err := d.Drop(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := sql(t.Context(), d.URL(), "SELECT 1"); err == nil {
			t.Errorf("database %d is there after Drop", i)
		}
	}
}

func TestFailedBuildLeavesNoTemplate(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	broken := errors.New("broken")
	fail := true
	template := testcluster.Template{Key: t.Name(), Build: func(ctx context.Context, address string) error {
		if _, err := sql(ctx, address, "CREATE TABLE seed ()"); err != nil {
			return err
		}
		if fail {
			return broken
		}
		return nil
	}}
	if _, err := c.Clone(t.Context(), template); !errors.Is(err, broken) {
		t.Fatalf("clone of a broken template: %v", err)
	}
	fail = false
	d, err := c.Clone(t.Context(), template)
	if err != nil {
		t.Fatalf("second attempt: %v", err)
	}
	if err := d.Drop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestURLAsLogsInWithoutPassword(t *testing.T) {
	t.Parallel()
	d, err := cluster(t).Empty(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sql(t.Context(), d.URL(), "CREATE ROLE testcluster_guest LOGIN"); err != nil {
		t.Fatal(err)
	}
	got, err := sql(t.Context(), d.URLAs("testcluster_guest"), "SELECT current_user")
	if err != nil || got != "testcluster_guest" {
		t.Errorf("current_user = %q, %v", got, err)
	}
	if err := d.Drop(t.Context()); err != nil {
		t.Error(err)
	}
	u, err := url.Parse(d.URLAs("testcluster_guest"))
	if err != nil {
		t.Fatal(err)
	}
	if _, set := u.User.Password(); set {
		t.Error("a password is in the address")
	}
}

// Several processes come at once: one starts the server and builds the
// template, and the last to leave ends the server and removes everything.
func TestProcessesShareOneServer(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	if err := os.Chmod(filepath.Dir(temp), 0o711); err != nil {
		t.Fatal(err)
	}
	const processes = 4
	outputs := make([]bytes.Buffer, processes)
	var group sync.WaitGroup
	for i := range processes {
		group.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), userVariable+"=1", testcluster.Variable+"=", "TMPDIR="+temp)
			cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
			if err := cmd.Run(); err != nil {
				t.Errorf("process %d: %v: %s", i, err, &outputs[i])
			}
		})
	}
	group.Wait()
	left, err := filepath.Glob(filepath.Join(temp, "*", "cluster"))
	if err != nil || len(left) > 0 {
		t.Errorf("the last process left %v behind (%v)", left, err)
	}
}

// With a directory from outside, the server outlives every process that uses it.
func TestGivenDirectoryStaysUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := localpg.StopOrphan(context.WithoutCancel(t.Context()), dir); err != nil {
			t.Error(err)
		}
	})
	var output bytes.Buffer
	for range 2 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), userVariable+"=1", testcluster.Variable+"="+dir)
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, &output)
		}
	}
	if got := strings.Count(output.String(), "built"); got != 1 {
		t.Errorf("the second process built the template again (%d): %s", got, &output)
	}
}
