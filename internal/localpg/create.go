package localpg

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// create makes the cluster unless it exists. The data directory appears under
// its name only when it is complete, so a crash leaves nothing half made.
func (c *Cluster) create(ctx context.Context) error {
	data := c.options.dataDir()
	if err := c.account.reaches(c.options.Dir); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("localpg: %w", err)
	}
	unfinished := data + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	if err := c.account.privateDir(unfinished); err != nil {
		return err
	}
	if err := os.WriteFile(c.options.passwordFile(), []byte(rand.Text()+"\n"), 0o600); err != nil {
		return fmt.Errorf("localpg: password: %w", err)
	}
	if err := c.initdb(ctx, unfinished); err != nil {
		return err
	}
	if err := os.Rename(unfinished, data); err != nil {
		return fmt.Errorf("localpg: %w", err)
	}
	return nil
}

func (c *Cluster) initdb(ctx context.Context, dir string) error {
	passwordCopy, err := c.passwordForServer()
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(passwordCopy) }()

	local := "scram-sha-256"
	if c.options.TrustSocket {
		local = "trust"
	}
	args := []string{
		"--pgdata=" + dir, "--username=" + Superuser, "--pwfile=" + passwordCopy,
		"--auth-local=" + local, "--auth-host=scram-sha-256",
		"--encoding=UTF8", "--locale=C",
	}
	if c.options.NoFSync {
		args = append(args, "--no-sync")
	}
	cmd := c.command(ctx, c.binaries.path("initdb"), args...)
	if out, err := output(cmd); err != nil {
		return fmt.Errorf("localpg: initdb: %w: %s", err, out)
	}
	return nil
}

// passwordForServer copies the password to where the server's account may read it.
func (c *Cluster) passwordForServer() (path string, err error) {
	password, err := os.ReadFile(c.options.passwordFile())
	if err != nil {
		return "", fmt.Errorf("localpg: password: %w", err)
	}
	file, err := os.CreateTemp(c.options.Dir, "password.*")
	if err != nil {
		return "", fmt.Errorf("localpg: password: %w", err)
	}
	_, err = file.Write(password)
	if err := errors.Join(err, file.Close(), c.account.own(file.Name())); err != nil {
		return "", fmt.Errorf("localpg: password: %w", errors.Join(err, os.Remove(file.Name())))
	}
	return file.Name(), nil
}

// maxSocketPath is what the address of a Unix socket holds on every system,
// the closing zero included (macOS 104, Linux 108).
const maxSocketPath = 104

// makeSocketDir makes the directory of the socket, mode 0700: inside the
// cluster's, or under a short name derived from it where that path is too long.
func (c *Cluster) makeSocketDir() (string, error) {
	dir := filepath.Join(c.options.Dir, "socket")
	name := ".s.PGSQL." + strconv.Itoa(c.options.port()) + ".lock"
	if len(filepath.Join(dir, name)) >= maxSocketPath {
		sum := sha256.Sum256([]byte(c.options.Dir))
		dir = filepath.Join("/tmp", "toolbus-pg-"+hex.EncodeToString(sum[:8]))
	}
	if err := c.account.privateDir(dir); err != nil {
		return "", err
	}
	return dir, nil
}
