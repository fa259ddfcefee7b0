package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	riverWorkers = 1000
	riverInsert  = 500
	// riverBacklog bounds the jobs that wait, so that inserting and working go
	// hand in hand.
	riverBacklog = 5000
)

type riverArgs struct{ payload }

// Kind names the job to River.
func (riverArgs) Kind() string { return "call" }

// riverWorker does nothing and records an output of the size of a tool's result.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	worked atomic.Int64
}

// Work is the job.
func (w *riverWorker) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	w.worked.Add(1)
	return river.RecordOutput(ctx, job.Args.payload)
}

// measureRiver gives the jobs per second that River inserts, works and completes
// with recorded output.
func measureRiver(ctx context.Context, url string, window time.Duration) (rate float64, err error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return 0, err
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return 0, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	worker, workers := &riverWorker{}, river.NewWorkers()
	river.AddWorker(workers, worker)
	client, err := river.NewClient(driver, &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		Workers:       workers,
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		Logger: quiet(),
	})
	if err != nil {
		return 0, err
	}
	if err := client.Start(ctx); err != nil {
		return 0, fmt.Errorf("start: %w", err)
	}
	inserting, stop := context.WithCancel(ctx)
	var inserters sync.WaitGroup
	var failed error
	inserters.Go(func() { failed = insertRiver(inserting, client, worker) })
	defer func() {
		stop()
		inserters.Wait()
		err = errors.Join(err, failed, client.StopAndCancel(ctx))
	}()
	time.Sleep(time.Second) // up to speed
	before, begin, err := completed(ctx, pool)
	if err != nil {
		return 0, err
	}
	time.Sleep(window)
	after, end, err := completed(ctx, pool)
	return float64(after-before) / end.Sub(begin).Seconds(), err
}

func insertRiver(ctx context.Context, client interface {
	InsertManyFast(ctx context.Context, params []river.InsertManyParams) (int, error)
}, w *riverWorker,
) error {
	for inserted := int64(0); ctx.Err() == nil; {
		if inserted-w.worked.Load() > riverBacklog {
			time.Sleep(time.Millisecond)
			continue
		}
		jobs := make([]river.InsertManyParams, riverInsert)
		for i := range jobs {
			inserted++
			jobs[i].Args = riverArgs{newPayload(inserted)}
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil && ctx.Err() == nil {
			return fmt.Errorf("insert: %w", err)
		}
	}
	return nil
}

func completed(ctx context.Context, pool *pgxpool.Pool) (n int64, at time.Time, err error) {
	err = pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'completed'`).Scan(&n)
	return n, time.Now(), err
}
