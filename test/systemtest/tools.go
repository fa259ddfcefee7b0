package systemtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/toolbus/toolbus/builtin"
	"github.com/toolbus/toolbus/tool"
)

// The tools of [WriteTools], one for each class of idempotency. The shipped
// policy lets them run without asking.
const (
	WriteReadOnly    = "demo.write_read_only"
	WriteIdempotent  = "demo.write_idempotent"
	WriteConditional = "demo.write_conditional"
	WriteOnce        = "demo.write_once"
)

// WriteTools are tools that append a line to the file sink for every effect.
func WriteTools(sink string) []tool.Tool {
	o := builtin.Options{Demo: builtin.DemoSink{File: sink}}
	return []tool.Tool{
		builtin.DemoWrite(o, WriteReadOnly, tool.WorkspaceRead, tool.ReadOnly),
		builtin.DemoWrite(o, WriteIdempotent, tool.WorkspaceWrite, tool.Idempotent),
		builtin.DemoWrite(o, WriteConditional, tool.WorkspaceWrite, tool.ConditionallyIdempotent),
		builtin.DemoWrite(o, WriteOnce, tool.WorkspaceWrite, tool.NonIdempotent),
	}
}

// Effects reads what the outside world recorded, in order.
func (s *System) Effects(t testing.TB) []builtin.DemoEffect {
	t.Helper()
	data, err := os.ReadFile(s.Sink)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("effects: %v", err)
	}
	var out []builtin.DemoEffect
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e builtin.DemoEffect
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("effects: %v", err)
		}
		out = append(out, e)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("effects: %v", err)
	}
	return out
}
