package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// devFile is what a running `toolbus dev` says about itself: with --json on
// standard output, and always in its data directory, for the other commands.
type devFile struct {
	NATSURL      string `json:"nats_url"`
	NATSUser     string `json:"nats_user"`
	NATSPassword string `json:"nats_password"`
	DatabaseURL  string `json:"database_url"`
	HTTPURL      string `json:"http_url"`
	HTTPToken    string `json:"http_token"`
	Data         string `json:"data"`
}

const devFileName = "dev.json"

// dataVariable names the data directory in the environment.
const dataVariable = "TOOLBUS_DATA"

// errNotRunning says that no `toolbus dev` runs on a data directory.
var errNotRunning = errors.New("no running toolbus was found")

// dataDir gives the data directory: the flag, the variable, or the place where
// the system keeps such things.
func (p *process) dataDir(flag string) (string, error) {
	dir := flag
	if dir == "" {
		dir = p.getenv(dataVariable)
	}
	if dir == "" {
		dir = p.defaultDataDir()
	}
	if dir == "" {
		return "", wrongUse("there is no home directory: name a data directory with --data")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	return dir, nil
}

func (p *process) defaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/toolbus"
	}
	if share := p.getenv("XDG_DATA_HOME"); filepath.IsAbs(share) {
		return filepath.Join(share, "toolbus")
	}
	if home := p.getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "share", "toolbus")
	}
	return ""
}

// write puts the file into place in one step.
func (d *devFile) write() error {
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("%s: %w", devFileName, err)
	}
	path := filepath.Join(d.Data, devFileName)
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("%s: %w", devFileName, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("%s: %w", devFileName, err)
	}
	return nil
}

func removeDevFile(dir string) error {
	err := os.Remove(filepath.Join(dir, devFileName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", devFileName, err)
	}
	return nil
}

// running reads the file of a data directory and looks whether it is true still:
// a process that was killed leaves it behind.
func running(ctx context.Context, dir string) (devFile, error) {
	var d devFile
	data, err := os.ReadFile(filepath.Join(dir, devFileName))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w on %s", errNotRunning, dir)
		}
		return d, err
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("%s: %w", filepath.Join(dir, devFileName), err)
	}
	if !listens(ctx, d.NATSURL) {
		return d, fmt.Errorf("%w on %s: the one that was there is gone", errNotRunning, dir)
	}
	return d, nil
}

// listens reports whether somebody accepts connections at the address.
func listens(ctx context.Context, address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" {
		return true // somebody else's address, and theirs to judge
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
