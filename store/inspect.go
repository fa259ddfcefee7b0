package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Inspection is what a look at a database says about it.
type Inspection struct {
	// ServerVersion is PostgreSQL's own name of its release, such as 17.2.
	ServerVersion string
	// User is who the address signs in as.
	User string
	// MissingRoles are roles that the user must be able to act as and cannot.
	MissingRoles []string
	// Schema is the version that is installed, 0 for none; Want is this build's.
	Schema, Want int64
	// Skew is how far the database's clock is ahead of this machine's, known to
	// within RoundTrip.
	Skew, RoundTrip time.Duration
}

// undefinedTable is PostgreSQL's code for a table that is not there.
const undefinedTable = "42P01"

// Inspect looks at a database without changing it, whatever state its schema is
// in. An error says that it cannot be reached or not be asked.
func Inspect(ctx context.Context, url string) (Inspection, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return Inspection{}, fmt.Errorf("database URL: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return Inspection{}, fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var i Inspection
	if i.Want, err = SchemaVersion(); err != nil {
		return i, err
	}
	if err := i.server(ctx, conn); err != nil {
		return i, err
	}
	return i, i.schema(ctx, conn)
}

func (i *Inspection) server(ctx context.Context, conn *pgx.Conn) error {
	i.ServerVersion, i.User = conn.PgConn().ParameterStatus("server_version"), conn.Config().User
	var clock time.Time
	asked := time.Now()
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&clock); err != nil {
		return fmt.Errorf("clock: %w", err)
	}
	i.RoundTrip = time.Since(asked)
	i.Skew = clock.Sub(asked.Add(i.RoundTrip / 2))
	err := conn.QueryRow(ctx, `SELECT coalesce(array_agg(wanted), '{}') FROM unnest($1::text[]) AS wanted
		WHERE NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = wanted AND pg_has_role(current_user, oid, 'MEMBER'))`,
		[]string{roleService, roleSweeper}).Scan(&i.MissingRoles)
	if err != nil {
		return fmt.Errorf("roles: %w", err)
	}
	return nil
}

func (i *Inspection) schema(ctx context.Context, conn *pgx.Conn) error {
	if len(i.MissingRoles) == 0 {
		// Only the roles may be granted to read it.
		if _, err := conn.Exec(ctx, "SET ROLE "+roleService); err != nil {
			return fmt.Errorf("act as %s: %w", roleService, err)
		}
	}
	err := conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&i.Schema)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == undefinedTable {
		return nil
	}
	if err != nil {
		return fmt.Errorf("schema version: %w", err)
	}
	return nil
}
