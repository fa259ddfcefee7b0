package localpg

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

const (
	defaultMaxConnections = 100
	defaultStartTimeout   = time.Minute
	// socketPort is part of the socket's file name; no TCP port is opened for it.
	socketPort = 5432
)

// Options say where a cluster lives and how it runs. The zero value of every
// field but Dir is usable.
type Options struct {
	// Dir holds the cluster; it is created when absent. For a process that is
	// root every parent of Dir must be open to the account that runs the server.
	Dir string
	// BinDir is where postgres, initdb and psql are; empty means [Find].
	BinDir string
	// User is the account that runs the server when the process is root; empty
	// means postgres, else nobody. It is not looked at otherwise.
	User string
	// Port opens a TCP port on 127.0.0.1 beside the socket; 0 opens none.
	Port int
	// MaxConnections is PostgreSQL's max_connections; 0 means 100.
	MaxConnections int
	// NoFSync trades safety for speed: a crash of the machine may corrupt the
	// cluster. A crash of the server loses nothing. For tests.
	NoFSync bool
	// TrustSocket lets connections over the socket in without a password; the
	// socket's directory, mode 0700, is the guard that is left. For tests. It
	// has an effect only when the cluster is created.
	TrustSocket bool
	// Shared lets several processes use the cluster: the server outlives the
	// process that started it, and any of them may stop it.
	Shared bool
	// Settings are further PostgreSQL settings, by name.
	Settings map[string]string
	// StartTimeout bounds creation, recovery and start together; 0 means one minute.
	StartTimeout time.Duration
	// Logger receives one line per start, adoption and stop; nil means none.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("localpg: Options.Dir is empty")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("localpg: directory %s: %w", o.Dir, err)
	}
	o.Dir = dir
	if o.Port < 0 || o.Port > 65535 {
		return o, fmt.Errorf("localpg: port %d is not between 0 and 65535", o.Port)
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = defaultMaxConnections
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

func (o Options) dataDir() string      { return filepath.Join(o.Dir, "data") }
func (o Options) passwordFile() string { return filepath.Join(o.Dir, "password") }
func (o Options) lockFile() string     { return filepath.Join(o.Dir, "lock") }
func (o Options) logFile() string      { return filepath.Join(o.Dir, "postgres.log") }

func (o Options) port() int {
	if o.Port == 0 {
		return socketPort
	}
	return o.Port
}

// serverArgs are the arguments of the postgres binary. Settings go on the
// command line, so that the data directory holds no configuration that could
// disagree with Options.
func (o Options) serverArgs(socketDir string) []string {
	settings := map[string]string{ //nolint:gosec // password_encryption is a method, not a password
		"listen_addresses":        "",
		"port":                    strconv.Itoa(o.port()),
		"unix_socket_directories": socketDir,
		"unix_socket_permissions": "0700",
		"max_connections":         strconv.Itoa(o.MaxConnections),
		"password_encryption":     "scram-sha-256",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
	}
	if o.Port != 0 {
		settings["listen_addresses"] = "127.0.0.1"
	}
	if o.NoFSync {
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off"
	}
	maps.Copy(settings, o.Settings)

	args := []string{"-D", o.dataDir()}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}
