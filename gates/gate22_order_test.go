package gates

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/test/systemtest"
	"github.com/toolbus/toolbus/tool"
)

// observedRead is a read that writes down when it begins and ends, and waits
// until as many began as may run side by side.
const observedRead = "demo.observed_read"

// orderKit adds observedRead; its journal stands beside the sink.
func orderKit(o *app.Options) {
	spec := declaration(tool.Builtin, func(s *tool.Spec) {
		s.Name, s.AllowParallel, s.TimeoutSeconds = observedRead, true, 60
		s.InputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"together":{"type":"integer"}}}`)
	})
	o.Tools = append(o.Tools, &observer{declared: declared{spec: spec}, journal: filepath.Join(o.DataDir, "journal")})
}

type observer struct {
	declared
	journal string
}

// Execute implements [tool.Tool].
func (o *observer) Execute(ctx context.Context, arguments json.RawMessage, _ *tool.Execution) (tool.Result, error) {
	var a struct{ N, Together int }
	if err := json.Unmarshal(arguments, &a); err != nil {
		return tool.Result{}, err
	}
	if err := o.write("begin", a.N); err != nil {
		return tool.Result{}, err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		began, err := readJournal(o.journal)
		if err != nil {
			return tool.Result{}, err
		}
		if strings.Count(began, "begin") >= a.Together {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
	}
	return tool.Succeed(tool.Text("read")), o.write("end", a.N)
}

func (o *observer) write(what string, n int) error {
	f, err := os.OpenFile(o.journal, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %d\n", what, n)
	return errors.Join(err, f.Close())
}

func readJournal(name string) (string, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(data), err
}

// TestGate22_Order: a mixed batch runs in the order in which the model emitted
// it, whichever of four executors takes each call; a batch of reads runs side by
// side and never wider than its window.
func TestGate22_Order(t *testing.T) { //nolint:tparallel // the cases share their processes
	t.Parallel()
	s := systemtest.New(t).Patient()
	s.SpawnKit(t, "order", app.Gatekeeper, app.Recovery)
	for range 4 {
		s.SpawnKit(t, "order", app.Executor)
	}
	session := s.OpenRuntime(t, "acme", nil)
	t.Run("mixed batch of 20", func(t *testing.T) { gate22Mixed(t, s, session.NewRun(t), 20, nil) })
	t.Run("mixed batch of 128", func(t *testing.T) { gate22Mixed(t, s, session.NewRun(t), 128, nil) })
	t.Run("approvals in the middle", func(t *testing.T) { gate22Mixed(t, s, session.NewRun(t), 20, []int{3, 4, 11}) })
	t.Run("parallel batch of 20", func(t *testing.T) { gate22Parallel(t, s, session.NewRun(t), 20) })
	s.SQL(t).CheckInvariants(t)
}

// gate22Mixed proposes writes of every class between reads. The calls at the
// given positions need an approval; they are approved last first.
func gate22Mixed(t *testing.T, s *systemtest.System, r *systemtest.Runtime, n int, approvals []int) {
	t.Helper()
	kinds := []string{systemtest.WriteOnce, systemtest.WriteReadOnly, systemtest.WriteIdempotent, systemtest.WriteConditional}
	calls := make([]subjects.Call, n)
	for i := range calls {
		name := kinds[i%len(kinds)]
		if slices.Contains(approvals, i) {
			name = "demo.external_write"
		}
		calls[i] = systemtest.Call(fmt.Sprintf("c%d", i), name, fmt.Sprintf(`{"payload":{"run":%q,"n":%d}}`, r.Run, i))
	}
	r.Propose(t, 1, calls...)
	for _, i := range slices.Backward(approvals) {
		if got := r.Decide(t, r.Approval(t, 1, calls[i].CallID), subjects.DecisionApprove); got.Result != "applied" {
			t.Fatalf("approval of %d: %+v", i, got)
		}
	}
	for _, c := range calls {
		if o := r.Outcome(t, 1, c.CallID); o.Status != tool.OutcomeSucceeded {
			t.Fatalf("%s: %s %+v", c.CallID, o.Status, o.Item.Outcome)
		}
	}
	var order []int
	for _, e := range s.Effects(t) {
		var p struct {
			Run string
			N   int
		}
		if json.Unmarshal(e.Payload, &p) == nil && p.Run == r.Run.String() {
			order = append(order, p.N)
		}
	}
	if len(order) != n || !slices.IsSorted(order) {
		t.Errorf("order %v", order)
	}
	owners := s.SQL(t).Count(t, `SELECT count(DISTINCT claim_id) FROM tool_invocations WHERE run_id = $1`, r.Run)
	if owners < 2 {
		t.Error("one claim took all: nothing was put in order")
	}
}

func gate22Parallel(t *testing.T, s *systemtest.System, r *systemtest.Runtime, n int) {
	t.Helper()
	window := s.Config.Batch.Concurrency
	calls := make([]subjects.Call, n)
	for i := range calls {
		calls[i] = systemtest.Call(fmt.Sprintf("c%d", i), observedRead, fmt.Sprintf(`{"n":%d,"together":%d}`, i, window))
	}
	r.Propose(t, 1, calls...)
	for _, c := range calls {
		if o := r.Outcome(t, 1, c.CallID); o.Status != tool.OutcomeSucceeded {
			t.Fatalf("%s: %s %+v", c.CallID, o.Status, o.Item.Outcome)
		}
	}
	journal, err := os.ReadFile(filepath.Join(s.Dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	running, widest, began := 0, 0, 0
	lines := bufio.NewScanner(bytes.NewReader(journal))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "begin") {
			running, began = running+1, began+1
			widest = max(widest, running)
		} else {
			running--
		}
	}
	if began != n || widest != window {
		t.Errorf("%d began, at most %d side by side, want %d and %d", began, widest, n, window)
	}
}
