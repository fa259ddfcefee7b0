package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolbus/toolbus/tool"
)

// The floor is what a worker without a bus would do: every step of a call is one
// statement on one row, and a commit of its own.
const (
	rawTable = `CREATE TABLE raw_invocations (
	id uuid PRIMARY KEY, tenant_id text NOT NULL, session_id uuid NOT NULL, run_id uuid NOT NULL, step_number int NOT NULL,
	call_id text NOT NULL, tool_name text NOT NULL, tool_version text NOT NULL, tool_source text NOT NULL, target_kind text NOT NULL,
	side_effect text NOT NULL, idempotency_class text NOT NULL, arguments jsonb NOT NULL, arguments_hash text NOT NULL,
	idempotency_key text NOT NULL UNIQUE, origin_trust text NOT NULL, status text NOT NULL, attempt_number int NOT NULL DEFAULT 1,
	lease_owner text, lease_expires_at timestamptz, effect_sent_at timestamptz, outcome_status text, result jsonb, error jsonb,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(), started_at timestamptz, finished_at timestamptz);
CREATE INDEX ON raw_invocations (run_id, step_number);
CREATE INDEX ON raw_invocations (lease_expires_at) WHERE status = 'RUNNING'`
	rawIntent = `INSERT INTO raw_invocations (id, tenant_id, session_id, run_id, step_number, call_id, tool_name, tool_version, tool_source,
	target_kind, side_effect, idempotency_class, arguments, arguments_hash, idempotency_key, origin_trust, status)
	VALUES ($1, 'bench', $1, $2, $3, 'call', 'bench.write', '1', 'builtin', 'in_process', 'platform_write', 'idempotent', $4, $5, $5, 'user', 'AUTHORIZED')`
	rawClaim = `UPDATE raw_invocations SET status = 'RUNNING', lease_owner = 'bench', started_at = clock_timestamp(),
	lease_expires_at = clock_timestamp() + interval '30 seconds' WHERE id = $1 AND status = 'AUTHORIZED'`
	rawMark   = `UPDATE raw_invocations SET effect_sent_at = clock_timestamp() WHERE id = $1 AND status = 'RUNNING' AND attempt_number = 1`
	rawResult = `UPDATE raw_invocations SET status = 'SUCCEEDED', outcome_status = 'succeeded', result = $2, finished_at = clock_timestamp(),
	lease_owner = NULL, lease_expires_at = NULL WHERE id = $1 AND status = 'RUNNING' AND attempt_number = 1`
)

// measureRaw runs the floor with so many clients, a connection each.
func measureRaw(ctx context.Context, url string, clients int, warm, window time.Duration) (measured, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	var measuring atomic.Bool
	results, failures := make([]measured, clients), make([]error, clients)
	for i := range clients {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return measured{}, fmt.Errorf("raw loop: %w", err)
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		all.Go(func() {
			for ctx.Err() == nil && failures[i] == nil {
				failures[i] = rawCall(ctx, conn, &results[i], measuring.Load)
			}
		})
	}
	time.Sleep(warm)
	began := time.Now()
	measuring.Store(true)
	time.Sleep(window)
	measuring.Store(false)
	total := measured{window: time.Since(began)}
	stop()
	all.Wait()
	for i, r := range results {
		if err := failures[i]; err != nil && !errors.Is(err, context.Canceled) {
			return measured{}, fmt.Errorf("raw loop: %w", err)
		}
		total.calls += r.calls
		total.latencies = append(total.latencies, r.latencies...)
	}
	return total, nil
}

func rawCall(ctx context.Context, conn *pgx.Conn, m *measured, measuring func() bool) error {
	began, id := time.Now(), [16]byte(tool.NewID())
	arguments := `{"text":"` + strings.Repeat("x", 250) + `","number":1}`
	result := `{"trust":"internal_tool","content":[{"type":"text","text":"` + strings.Repeat("y", 400) + `"}]}`
	if _, err := conn.Exec(ctx, rawIntent, id, id, 1, arguments, fmt.Sprintf("%x", id)); err != nil {
		return err
	}
	for _, update := range []string{rawClaim, rawMark} {
		if _, err := conn.Exec(ctx, update, id); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, rawResult, id, result); err != nil {
		return err
	}
	if measuring() {
		m.calls++
		m.latencies = append(m.latencies, time.Since(began))
	}
	return nil
}

// measureSync gives the median milliseconds that forcing 8 KiB to the disk takes,
// beside the database.
func measureSync(dir string) (float64, error) {
	f, err := os.Create(filepath.Join(filepath.Clean(dir), "sync"))
	if err != nil {
		return 0, err
	}
	m, page := measured{}, make([]byte, 8<<10)
	for range 200 {
		began := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			return 0, errors.Join(err, f.Close())
		}
		if err := f.Sync(); err != nil {
			return 0, errors.Join(err, f.Close())
		}
		m.latencies = append(m.latencies, time.Since(began))
	}
	return m.percentile(0.5), f.Close()
}
