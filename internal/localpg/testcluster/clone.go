package testcluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/toolbus/toolbus/internal/localpg"
)

// adminDatabase is where statements about databases are run.
const adminDatabase = "postgres"

// Template describes a database to clone.
type Template struct {
	// Key tells templates apart: it changes with the schema, for example a hash
	// of the migrations.
	Key string
	// Build fills the empty database at url; it closes its connections. Roles
	// belong to the server, not to the database: Build must accept those that
	// another template made. It is run once per key and server.
	Build func(ctx context.Context, url string) error
}

// Database is a database that one test has for itself.
type Database struct {
	cluster *Cluster
	name    string
}

// Empty returns a new database with nothing in it.
func (c *Cluster) Empty(ctx context.Context) (*Database, error) {
	return c.cloneOf(ctx, "template0")
}

// Clone returns a new database with the contents of the template, which is
// built first if no process has yet.
func (c *Cluster) Clone(ctx context.Context, t Template) (*Database, error) {
	sum := sha256.Sum256([]byte(t.Key))
	name := "template_" + hex.EncodeToString(sum[:8])
	if err := c.ensure(ctx, name, t); err != nil {
		return nil, fmt.Errorf("testcluster: template %s: %w", t.Key, err)
	}
	return c.cloneOf(ctx, name)
}

func (c *Cluster) cloneOf(ctx context.Context, template string) (*Database, error) {
	name := "test_" + strings.ToLower(rand.Text())
	// Without fsync the two checkpoints of FILE_COPY cost less than writing the
	// whole template to the log. Release 14 knows no other way.
	strategy := ""
	if c.server.Major() >= 15 {
		strategy = " STRATEGY file_copy"
	}
	_, err := c.server.Exec(ctx, adminDatabase, "CREATE DATABASE "+localpg.QuoteIdentifier(name)+
		" TEMPLATE "+localpg.QuoteIdentifier(template)+strategy)
	if err != nil {
		return nil, fmt.Errorf("testcluster: clone: %w", err)
	}
	return &Database{cluster: c, name: name}, nil
}

func (c *Cluster) ensure(ctx context.Context, name string, t Template) (err error) {
	c.building.Lock()
	defer c.building.Unlock()
	if c.built[name] {
		return nil
	}
	lock, err := localpg.OpenLock(filepath.Join(c.dir, "templates.lock"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := lock.Exclusive(ctx); err != nil {
		return err
	}
	found, err := c.server.Exec(ctx, adminDatabase,
		"SELECT 1 FROM pg_database WHERE datname = "+localpg.QuoteLiteral(name))
	if err != nil {
		return err
	}
	if found == "" {
		if err := c.build(ctx, name, t); err != nil {
			return err
		}
	}
	c.built[name] = true
	return nil
}

// build works under another name, so that a template is complete if it is there.
func (c *Cluster) build(ctx context.Context, name string, t Template) error {
	unfinished := name + "_new"
	quoted := localpg.QuoteIdentifier(unfinished)
	if _, err := c.server.Exec(ctx, adminDatabase,
		"DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE); CREATE DATABASE "+quoted+" TEMPLATE template0"); err != nil {
		return err
	}
	if err := t.Build(ctx, c.server.URL(unfinished)); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	// A server process outlives the connection it served by a moment.
	_, err := c.server.Exec(ctx, adminDatabase,
		"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = "+localpg.QuoteLiteral(unfinished)+
			"; ALTER DATABASE "+quoted+" RENAME TO "+localpg.QuoteIdentifier(name))
	return err
}

// URL is the address of the database for the superuser.
func (d *Database) URL() string { return d.cluster.server.URL(d.name) }

// URLAs is the address of the database for another role; the server asks no
// password on its socket.
func (d *Database) URLAs(role string) string { return d.cluster.server.URLAs(role, "", d.name) }

// Drop removes the database and cuts the connections it still has.
func (d *Database) Drop(ctx context.Context) error {
	_, err := d.cluster.server.Exec(ctx, adminDatabase,
		"DROP DATABASE IF EXISTS "+localpg.QuoteIdentifier(d.name)+" WITH (FORCE)")
	if err != nil {
		return fmt.Errorf("testcluster: drop: %w", err)
	}
	return nil
}
