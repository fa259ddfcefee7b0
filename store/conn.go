package store

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
)

// laneConn is the one connection of a lane. It belongs to the lane's goroutine.
type laneConn struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn
}

// laneSettings make the batch statements plan the same way whatever the tables
// hold: nested loops with the array outside and the primary key inside. A plan
// made on an empty table would otherwise be kept, and be wrong.
var laneSettings = map[string]string{
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"enable_bitmapscan":                   "off",
	"plan_cache_mode":                     "force_generic_plan",
	"jit":                                 "off",
	"idle_in_transaction_session_timeout": "10000",
	"lock_timeout":                        "10000",
	"tcp_user_timeout":                    "10000",
}

const (
	roleService = "toolbus_service"
	roleSweeper = "toolbus_sweeper"
)

func laneConfig(url, role, name string) (*pgx.ConnConfig, error) {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	maps.Copy(c.RuntimeParams, laneSettings)
	c.RuntimeParams["role"] = role
	c.RuntimeParams["application_name"] = "toolbus " + name
	c.ConnectTimeout = 5 * time.Second
	return c, nil
}

func (l *laneConn) get(ctx context.Context) (*pgx.Conn, error) {
	if l.conn != nil && !l.conn.IsClosed() {
		return l.conn, nil
	}
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	l.conn = conn
	return conn, nil
}

// drop closes a connection whose state is unknown.
func (l *laneConn) drop(ctx context.Context) {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx)
	l.conn = nil
}
