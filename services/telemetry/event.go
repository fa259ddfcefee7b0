package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolbus/toolbus/announce"
	"github.com/toolbus/toolbus/pipeline"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

// event is an event on its way to the clients.
type event struct {
	// position is the sequence of the message at which the event is sent, resume
	// the one after which a client that saw it goes on.
	position, resume uint64
	tenant           string
	run              tool.ID
	name             string
	at               time.Time
	data             []byte
	// call is nil for an event that belongs to no call.
	call *subjects.CallEvent
}

// named reports whether the event has the name, or begins with it when that
// ends in a dot.
func (e *event) named(name string) bool {
	return e.name == name || strings.HasSuffix(name, ".") && strings.HasPrefix(e.name, name)
}

// errNoEvent says that a message of the event stream is not what its subject
// says.
var errNoEvent = errors.New("not an event")

// decode reads a message of the event stream. The tenant is the one of the
// subject; a body that names another is no event.
func decode(d subjects.Delivery) (event, error) {
	at, err := subjects.ParseEvent(d.Subject)
	if err != nil {
		return event{}, fmt.Errorf("%w: %w", errNoEvent, err)
	}
	e := event{position: d.Sequence, resume: d.Sequence, tenant: at.Tenant, run: at.Run, name: at.Name}
	if head := subjects.SketchEvent(d.Data); !head.InvocationID.IsZero() {
		err = e.decodeCall(d.Data)
	} else {
		err = e.decodeOther(d.Data)
	}
	if err != nil {
		return event{}, err
	}
	e.data, err = oneLine(d.Data)
	return e, err
}

func (e *event) decodeCall(data []byte) error {
	call, err := subjects.DecodeCallEvent(data)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoEvent, err)
	}
	if call.TenantID != e.tenant || call.RunID != e.run || call.Event != e.name || call.Seq < 1 {
		return fmt.Errorf("%w: subject and body disagree", errNoEvent)
	}
	e.call, e.at = &call, call.OccurredAt
	return nil
}

func (e *event) decodeOther(data []byte) error {
	other, err := subjects.DecodeEvent(data)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoEvent, err)
	}
	var run tool.ID
	if other.RunID != nil {
		run = *other.RunID
	}
	if other.TenantID != e.tenant || run != e.run || other.Event != e.name {
		return fmt.Errorf("%w: subject and body disagree", errNoEvent)
	}
	e.at = other.OccurredAt
	return nil
}

// oneLine gives data that fits in one line of a server-sent event, and is the
// receiver's own.
func oneLine(data []byte) ([]byte, error) {
	if !bytes.ContainsAny(data, "\r\n") {
		return bytes.Clone(data), nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoEvent, err)
	}
	return b.Bytes(), nil
}

// fromTable makes the event of a row, to be sent before the message at the
// given position. It is the same, byte for byte, as the message that is late.
func fromTable(n *pipeline.Notice, before uint64) event {
	call := announce.CallEvent(n)
	return event{
		position: before, resume: before - 1, tenant: call.TenantID, run: call.RunID, name: call.Event, at: call.OccurredAt,
		data: call.AppendJSON(nil), call: &call,
	}
}
