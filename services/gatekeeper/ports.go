package gatekeeper

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/registry"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// Store is what the gatekeeper reads and writes.
type Store interface {
	pipeline.AdmitStore
	Away() time.Duration

	OpenSession(ctx context.Context, n *pipeline.Session) (tool.ID, error)
	SessionByRequest(ctx context.Context, tenant, request string) (tool.ID, error)
	Session(ctx context.Context, tenant string, id tool.ID, catalog func(sha string) *pipeline.Catalog) (*pipeline.Session, error)

	WaitingCall(ctx context.Context, tenant string, approval tool.ID) (pipeline.Invocation, error)
	Decide(ctx context.Context, m pipeline.CommandMeta, approval tool.ID, row pipeline.Invocation, again pipeline.Reentry,
		resolve func(pipeline.Waiting) pipeline.Resolution, settle func(*pipeline.Invocation, pipeline.End) pipeline.Settlement) (pipeline.CommandResult, error)
	EndRun(ctx context.Context, m pipeline.CommandMeta, run tool.ID, status pipeline.RunStatus, reason string,
		code string, settle func(*pipeline.Invocation, pipeline.End) pipeline.Settlement) (pipeline.CommandResult, error)
	CloseSession(ctx context.Context, m pipeline.CommandMeta, session tool.ID) (pipeline.CommandResult, error)
	Revoke(ctx context.Context, m pipeline.CommandMeta, principal string, scopes []string) (pipeline.CommandResult, error)
	Review(ctx context.Context, m pipeline.CommandMeta, invocation tool.ID, verdict, comment string) (pipeline.CommandResult, error)
	Resume(ctx context.Context, m pipeline.CommandMeta, invocation tool.ID, answer json.RawMessage) (pipeline.CommandResult, error)
	RefuseCommand(ctx context.Context, m pipeline.CommandMeta, code string) (pipeline.CommandResult, error)
	RecordDeadLetter(ctx context.Context, d pipeline.DeadLetter) error

	Reader
}

// Reader is what the request verbs show.
type Reader interface {
	Step(ctx context.Context, tenant string, run tool.ID, step int) ([]pipeline.Existing, error)
	Invocation(ctx context.Context, tenant string, id tool.ID) (pipeline.Existing, error)
	Invocations(ctx context.Context, tenant string, f pipeline.InvocationFilter) ([]pipeline.Existing, error)
	History(ctx context.Context, tenant string, invocation tool.ID) ([]pipeline.EventRecord, error)
	// Evidence gives what is known beside the rows of uncertain calls.
	Evidence(ctx context.Context, tenant string, ids []tool.ID) (map[tool.ID]pipeline.Evidence, error)
	Command(ctx context.Context, tenant, id string) (pipeline.CommandResult, error)
	Artifact(ctx context.Context, tenant string, id tool.ID, offset int64) (tool.ArtifactRef, []byte, error)
}

// Bus carries messages.
type Bus interface {
	// Consume calls handle for each message of a durable until ctx ends.
	Consume(ctx context.Context, stream, durable string, concurrency int, pause func() bool,
		handle func(context.Context, subjects.Delivery) subjects.Verdict) error
	// Serve answers requests until ctx ends; ready is called once they arrive.
	Serve(ctx context.Context, name string, verbs []Verb, ready func()) error
	Publish(ctx context.Context, pubs []subjects.Publication) []error
	Notify(subject string, data []byte) error
}

// Verb is one request verb.
type Verb struct {
	Name    string
	Subject string
	Handle  func(ctx context.Context, tenant string, data []byte) (any, error)
}

// Catalog gives the tools a new session of a tenant may see, before the four
// filters, and the state of the tenant's servers.
type Catalog interface {
	ToolsFor(ctx context.Context, tenant string, servers []string) (*registry.Registry, []subjects.ServerState, error)
}
