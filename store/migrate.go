package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/toolbus/toolbus/migrations"
)

// rolesLock serialises the creation of roles, which belong to the cluster and
// not to a database.
const rolesLock = 0x746f6f6c62757301

// Migrate creates the roles and brings the schema of the database up to this
// build. Several processes may call it at once. It needs a user that may create
// roles and tables.
func Migrate(ctx context.Context, url string) error {
	if err := createRoles(ctx, url); err != nil {
		return err
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	db := stdlib.OpenDB(*config)
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return errors.Join(fmt.Errorf("migrate: %w", err), db.Close())
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		return errors.Join(fmt.Errorf("migrate: %w", err), db.Close())
	}
	_, err = p.Up(ctx)
	if err = errors.Join(err, grantVersion(ctx, url)); err != nil {
		err = fmt.Errorf("migrate: %w", err)
	}
	return errors.Join(err, db.Close())
}

func createRoles(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(rolesLock)); err != nil {
			return err
		}
		for _, role := range []string{roleService, roleSweeper} {
			var there bool
			if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = $1)", role).Scan(&there); err != nil {
				return err
			}
			if there {
				continue
			}
			name := pgx.Identifier{role}.Sanitize()
			if _, err := tx.Exec(ctx, "CREATE ROLE "+name+" NOLOGIN NOBYPASSRLS NOSUPERUSER"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "GRANT "+name+" TO CURRENT_USER"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("roles: %w", err)
	}
	return nil
}

// grantVersion lets services read which schema they stand on.
func grantVersion(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, "GRANT SELECT ON goose_db_version TO toolbus_service, toolbus_sweeper")
	return err
}

// SchemaVersion gives the version this build was made for: the highest number
// among the migration files.
func SchemaVersion() (int64, error) {
	files, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("migrations: %w", err)
	}
	var highest int64
	for _, name := range files {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, fmt.Errorf("migration %s: %w", name, err)
		}
		highest = max(highest, version)
	}
	return highest, nil
}

func checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	want, err := SchemaVersion()
	if err != nil {
		return err
	}
	var have int64
	err = pool.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&have)
	if err != nil {
		return fmt.Errorf("schema version: %w (has \"toolbus migrate\" been run?)", err)
	}
	if have != want {
		return fmt.Errorf("%w: the database has version %d, this build wants %d; run \"toolbus migrate\"", ErrSchema, have, want)
	}
	return nil
}
