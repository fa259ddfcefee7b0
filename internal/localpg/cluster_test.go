package localpg_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolbus/toolbus/internal/localpg"
)

// ownerVariable turns the test binary into a process that owns a cluster in
// the directory it names; sharedVariable makes that cluster a shared one.
const (
	ownerVariable  = "LOCALPG_TEST_OWNER"
	sharedVariable = "LOCALPG_TEST_SHARED"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerVariable); dir != "" {
		os.Exit(own(dir))
	}
	goleak.VerifyTestMain(m)
}

// own starts the cluster, says so, and waits to be killed.
func own(dir string) int {
	c, err := localpg.Start(context.Background(), localpg.Options{Dir: dir, NoFSync: true, Shared: os.Getenv(sharedVariable) != ""})
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println("ready", c.Pid())
	<-c.Exited()
	return 0
}

// startOwner starts a process that owns the cluster and returns it with the
// server's process identifier.
func startOwner(t *testing.T, dir string, shared bool) (owner *exec.Cmd, server int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), ownerVariable+"="+dir)
	if shared {
		cmd.Env = append(cmd.Env, sharedVariable+"=1")
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the owner said nothing: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "ready ")))
	if err != nil {
		t.Fatalf("the owner said %q", line)
	}
	return cmd, pid
}

// clusterDir is a temporary directory that the server's account can reach: the
// one above it is closed by default.
func clusterDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "signal: killed"
}

func start(t *testing.T, options localpg.Options) *localpg.Cluster {
	t.Helper()
	c, err := localpg.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	return c
}

func stop(t *testing.T, c *localpg.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func query(t *testing.T, c *localpg.Cluster, sql string) string {
	t.Helper()
	out, err := c.Exec(t.Context(), "postgres", sql)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestStopKeepsTheData(t *testing.T) {
	t.Parallel()
	options := localpg.Options{Dir: clusterDir(t), MaxConnections: 20, Settings: map[string]string{"work_mem": "5MB"}}
	c := start(t, options)
	query(t, c, "CREATE TABLE kept (v text); INSERT INTO kept VALUES ('one')")
	for setting, want := range map[string]string{
		"max_connections": "20", "work_mem": "5MB", "fsync": "on", "listen_addresses": "", "TimeZone": "UTC",
	} {
		if got := query(t, c, "SHOW "+setting); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	stop(t, c)
	select {
	case <-c.Exited():
	default:
		t.Error("Exited is open after Stop")
	}

	again := start(t, options)
	if again.Adopted() {
		t.Error("a stopped server was adopted")
	}
	if got := query(t, again, "SELECT v FROM kept"); got != "one" {
		t.Errorf("after a restart: %q", got)
	}
}

func TestSecondOwnerIsRefused(t *testing.T) {
	t.Parallel()
	options := localpg.Options{Dir: clusterDir(t), NoFSync: true}
	c := start(t, options)
	if _, err := localpg.Start(t.Context(), options); !errors.Is(err, localpg.ErrInUse) {
		t.Fatalf("second start: %v, want ErrInUse", err)
	}
	if got := query(t, c, "SELECT 1"); got != "1" {
		t.Errorf("the refused start disturbed the first: %q", got)
	}
}

func TestPasswordIsAsked(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	c := start(t, localpg.Options{Dir: dir, NoFSync: true})
	info, err := os.Stat(filepath.Join(dir, "password"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("password file has mode %v", info.Mode())
	}
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte("another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stop(t, c)
	wrong := start(t, localpg.Options{Dir: dir, NoFSync: true})
	if _, err := wrong.Exec(t.Context(), "postgres", "SELECT 1"); err == nil {
		t.Error("a wrong password was accepted")
	}
}

// The owner is killed outright. The kernel shuts the server down, and the next
// start waits for that or adopts what is still there; either way the row stays.
func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	owner, _ := startOwner(t, dir, false)
	if _, err := localpg.Start(t.Context(), localpg.Options{Dir: dir, NoFSync: true}); !errors.Is(err, localpg.ErrInUse) {
		t.Fatalf("start beside a living owner: %v, want ErrInUse", err)
	}
	kill(t, owner)
	c := start(t, localpg.Options{Dir: dir, NoFSync: true})
	if got := query(t, c, "SELECT 1"); got != "1" {
		t.Errorf("after the crash: %q", got)
	}
}

func TestOrphanIsAdopted(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	owner, server := startOwner(t, dir, true)
	kill(t, owner)

	c := start(t, localpg.Options{Dir: dir, NoFSync: true})
	if !c.Adopted() || c.Pid() != server {
		t.Fatalf("adopted %v pid %d, want the orphan %d", c.Adopted(), c.Pid(), server)
	}
	query(t, c, "CREATE TABLE kept ()")
	stop(t, c)
	if err := syscall.Kill(server, 0); err == nil {
		if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", server)); !strings.Contains(string(stat), ") Z ") {
			t.Error("the orphan runs on after Stop")
		}
	}
	if got := query(t, start(t, localpg.Options{Dir: dir, NoFSync: true}), "SELECT count(*) FROM kept"); got != "0" {
		t.Errorf("after the stop of an adopted server: %q", got)
	}
}

func TestServerKilled(t *testing.T) {
	t.Parallel()
	options := localpg.Options{Dir: clusterDir(t), NoFSync: true}
	c := start(t, options)
	query(t, c, "CREATE TABLE kept (v int); INSERT INTO kept VALUES (7)")
	if err := syscall.Kill(c.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Exited()
	stop(t, c) // gives the lock back; there is nothing left to stop

	if got := query(t, start(t, options), "SELECT v FROM kept"); got != "7" {
		t.Errorf("after SIGKILL of the server: %q", got)
	}
}

// A process identifier is reused: the pid file of a killed server names a
// process that has nothing to do with it, and must stay alive.
func TestStalePidFile(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	stop(t, start(t, localpg.Options{Dir: dir, NoFSync: true}))

	bystander := exec.CommandContext(t.Context(), "sleep", "600")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(t, bystander) })
	stale := fmt.Sprintf("%d\n%s\n1\n5432\n/tmp\n\n0 0\nready\n", bystander.Process.Pid, filepath.Join(dir, "data"))
	if err := os.WriteFile(filepath.Join(dir, "data", "postmaster.pid"), []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}

	c := start(t, localpg.Options{Dir: dir, NoFSync: true})
	if c.Adopted() || c.Pid() == bystander.Process.Pid {
		t.Error("the bystander was taken for a server")
	}
	stop(t, c)
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the bystander was harmed: %v", err)
	}
}

// A crash in the middle of initdb leaves a half-made directory.
func TestInterruptedCreation(t *testing.T) {
	t.Parallel()
	dir := clusterDir(t)
	half := filepath.Join(dir, "data.new")
	if err := os.MkdirAll(filepath.Join(half, "base"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := query(t, start(t, localpg.Options{Dir: dir, NoFSync: true}), "SELECT 1"); got != "1" {
		t.Errorf("got %q", got)
	}
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the half-made directory is still there: %v", err)
	}
}

func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(clusterDir(t), strings.Repeat("long", 20))
	c := start(t, localpg.Options{Dir: dir, NoFSync: true})
	u, err := url.Parse(c.URL("some_db"))
	if err != nil {
		t.Fatal(err)
	}
	socketDir := u.Query().Get("host")
	t.Cleanup(func() { _ = os.RemoveAll(socketDir) })
	if n := len(socketDir + "/.s.PGSQL.5432"); n >= 104 {
		t.Errorf("socket path has %d bytes", n)
	}
	if u.Path != "/some_db" || u.User.Username() != localpg.Superuser {
		t.Errorf("url is for %s as %s", u.Path, u.User.Username())
	}
	info, err := os.Stat(socketDir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("socket directory has mode %v", info.Mode())
	}
}

func TestBadSettingIsReported(t *testing.T) {
	t.Parallel()
	_, err := localpg.Start(t.Context(), localpg.Options{Dir: clusterDir(t), NoFSync: true, Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("error does not carry what the server said: %v", err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := localpg.Start(ctx, localpg.Options{Dir: clusterDir(t), NoFSync: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestClosedParentIsNamed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // only a server that runs as another account can be shut out
	}
	closed := filepath.Join(clusterDir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := localpg.Start(t.Context(), localpg.Options{Dir: filepath.Join(closed, "pg")})
	if err == nil || !strings.Contains(err.Error(), closed+" is closed to the account") {
		t.Errorf("got %v", err)
	}
}
