package executor

import (
	"context"
	"time"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/subjects"
)

// Store is what the executor reads and writes, beside what Execute does.
type Store interface {
	pipeline.SessionLoader
	Claim(ctx context.Context, r *pipeline.ClaimRequest) ([]pipeline.Claim, error)
	Heartbeat(ctx context.Context, beats []pipeline.Heartbeat, lease time.Duration) ([]pipeline.HeartbeatVerdict, error)
	Away() time.Duration
	RecordDeadLetter(ctx context.Context, d pipeline.DeadLetter) error
}

// Bus carries hints.
type Bus interface {
	// ConsumeBatch hands over at most slots() messages at a time until ctx ends.
	ConsumeBatch(ctx context.Context, stream, durable string, slots func() int, wake <-chan struct{}, pause func() bool,
		handle func(context.Context, []subjects.Delivery) []subjects.Verdict) error
	Publish(ctx context.Context, pubs []subjects.Publication) []error
	Subscribe(ctx context.Context, subject string, handle func(subjects.Delivery)) error
}
