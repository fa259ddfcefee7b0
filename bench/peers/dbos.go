package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// oneStep is a workflow of one step that does nothing.
func oneStep(ctx dbos.Context, in payload) (payload, error) {
	return dbos.RunAsStep(ctx, func(context.Context) (payload, error) { return in, nil })
}

// measureDBOS gives the workflows per second that so many callers start and
// await.
func measureDBOS(ctx context.Context, url string, window time.Duration, callers int) (float64, error) {
	d, err := dbos.NewContext(ctx, dbos.Config{AppName: "bench", DatabaseURL: url, Logger: quiet()})
	if err != nil {
		return 0, err
	}
	dbos.RegisterWorkflow(d, oneStep)
	if err := dbos.Launch(d); err != nil {
		return 0, fmt.Errorf("launch: %w", err)
	}
	defer func() { _ = dbos.Shutdown(d, 10*time.Second) }()
	var done, failures atomic.Int64
	var last atomic.Value
	calling, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for calling.Err() == nil {
				handle, err := dbos.RunWorkflow(d, oneStep, newPayload(done.Load()))
				if err == nil {
					_, err = handle.GetResult()
				}
				if err != nil {
					failures.Add(1)
					last.Store(err)
					return
				}
				done.Add(1)
			}
		})
	}
	time.Sleep(time.Second) // up to speed
	before, begin := done.Load(), time.Now()
	time.Sleep(window)
	rate := float64(done.Load()-before) / time.Since(begin).Seconds()
	stop()
	all.Wait()
	if failures.Load() > 0 {
		return 0, fmt.Errorf("workflow: %v", last.Load())
	}
	return rate, nil
}
