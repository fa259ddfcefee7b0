package telemetry

import (
	"context"
	"time"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// EventStream describes the event stream as it is now.
type EventStream struct {
	// Incarnation changes when the stream is created anew; it is of the alphabet
	// of a subject token.
	Incarnation string
	// First and Last are the sequence numbers it holds; Last is 0 while it never
	// held any.
	First, Last uint64
}

// EventReader reads the event stream.
type EventReader interface {
	EventStream(ctx context.Context) (EventStream, error)
	// ReadEvents calls handle for each event in stream order, beginning with the
	// sequence from, which belongs to the given incarnation. It returns nil when
	// ctx ends, what handle returns when that is an error, and an error when the
	// stream is another one by now.
	ReadEvents(ctx context.Context, incarnation string, from uint64, handle func(subjects.Delivery) error) error
}

// Tables is what the service reads of the database.
type Tables interface {
	// EventNotices gives the events of a call numbered from to, and without, to;
	// [pipeline.ErrNotFound] when there is no such call.
	EventNotices(ctx context.Context, tenant string, invocation tool.ID, from, to int) ([]pipeline.Notice, error)
	// Oldest gives the age of the oldest open call by status.
	Oldest(ctx context.Context) (map[tool.Status]time.Duration, error)
	// OutboxAge is about what is committed and not published.
	OutboxAge(ctx context.Context) (oldest time.Duration, entries int64, err error)
	// PendingApprovals is about approvals that nobody has decided.
	PendingApprovals(ctx context.Context) (pending int64, oldest time.Duration, err error)
	// DeadLetters counts the messages that could not be handled.
	DeadLetters(ctx context.Context) (int64, error)
}
