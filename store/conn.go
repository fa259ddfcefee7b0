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
	uses   int // of conn
}

// laneSettings make the batch statements plan the same way whatever the tables
// hold: nested loops with the array outside and the primary key inside. Two habits
// of the statements belong to it. An array's ordinals are said to lie in a range
// that they always lie in: the planner then takes the array for one row and not
// for ten, and looks each row up instead of reading the table. And none says
// completed_at IS NULL, which would make the index of all open calls eligible for
// looking up one. Joins are made in the order in which they are written, since a
// planner without statistics may as well begin with what only the tenant connects.
var laneSettings = map[string]string{
	"enable_seqscan":                      "off",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"enable_bitmapscan":                   "off",
	"join_collapse_limit":                 "1",
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

// planAgain is after how many uses, at the latest, the plans are made anew.
const planAgain = 4096

// get gives the connection. On an empty table every index is as good as any
// other, and a generic plan is kept: so the plans are made anew each time the
// number of uses has doubled, by when the tables may have, too.
func (l *laneConn) get(ctx context.Context) (*pgx.Conn, error) {
	if l.conn != nil && !l.conn.IsClosed() {
		l.uses++
		if l.uses&(l.uses-1) == 0 || l.uses%planAgain == 0 {
			if _, err := l.conn.Exec(ctx, "DISCARD PLANS"); err != nil {
				return nil, fmt.Errorf("discard plans: %w", err)
			}
		}
		return l.conn, nil
	}
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	l.conn, l.uses = conn, 0
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
