// Package storetest gives tests a database of their own, cloned from a template
// that was migrated once, and a store on it.
package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"log/slog"
	"testing"
	"time"

	"github.com/toolbus/toolbus/internal/localpg/testcluster"
	"github.com/toolbus/toolbus/migrations"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/store"
)

// URL gives the address of a fresh database with the current schema. It is
// dropped when the test ends. A machine without PostgreSQL fails the test.
func URL(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	cluster, err := testcluster.Shared(ctx)
	if err != nil {
		t.Fatalf("test cluster: %v", err)
	}
	db, err := cluster.Clone(ctx, testcluster.Template{Key: schemaKey(t), Build: store.Migrate})
	if err != nil {
		t.Fatalf("clone: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := db.Drop(ctx); err != nil {
			t.Errorf("drop: %v", err)
		}
	})
	return db.URL()
}

// Open gives a store on a database of the test's own. announce may be nil.
func Open(t testing.TB, announce func(pipeline.Announcement)) *store.Store {
	t.Helper()
	return OpenURL(t, URL(t), announce)
}

// OpenURL gives another store on an existing database.
func OpenURL(t testing.TB, url string, announce func(pipeline.Announcement)) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{URL: url, Pool: 2, Logger: slog.New(slog.DiscardHandler), Announce: announce})
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

func schemaKey(t testing.TB) string {
	t.Helper()
	sum := sha256.New()
	err := fs.WalkDir(migrations.FS, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(migrations.FS, path)
		sum.Write(data)
		return err
	})
	if err != nil {
		t.Fatalf("migrations: %v", err)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}
