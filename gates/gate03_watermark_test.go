package gates

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolbus/toolbus/app"
	"github.com/toolbus/toolbus/builtin"
	"github.com/toolbus/toolbus/internal/egress"
	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/test/systemtest"
	"github.com/toolbus/toolbus/tool"
)

// gate03Arguments are what each tool is called with; a builtin without an entry
// fails the gate.
var gate03Arguments = map[string]string{
	"demo.external_write":       `{"payload":"x"}`,
	"sandbox.run_command":       `{"command":"echo x > touched"}`,
	"workspace.edit_text":       `{"path":"touched","old_text":"old","new_text":"x"}`,
	"demo.http_once":            `{"payload":"x"}`,
	"demo.http_keyed":           `{"payload":"x"}`,
	systemtest.WriteOnce:        `{"payload":"x"}`,
	systemtest.WriteConditional: `{"payload":"x"}`,
}

// TestGate03_Watermark: a tool whose effect must not be repeated blindly touches
// its target only once the row says so. The write of the watermark is held up:
// as long as it is, nothing is touched; and a target that can look at the row
// when it is touched finds the watermark there.
func TestGate03_Watermark(t *testing.T) {
	t.Parallel()
	tools := append(builtin.All(builtin.Options{}), systemtest.WriteTools("")...)
	tools = append(tools, gate03HTTP(t, "http://127.0.0.1:1")...)
	cases := 0
	for _, b := range tools {
		spec := b.Spec()
		if spec.Idempotency != tool.NonIdempotent && spec.Idempotency != tool.ConditionallyIdempotent {
			continue
		}
		cases++
		t.Run(spec.Name, func(t *testing.T) {
			t.Parallel()
			if gate03Arguments[spec.Name] == "" {
				t.Fatal("the gate does not know how to call it")
			}
			gate03Run(t, spec.Name)
		})
	}
	if cases < len(gate03Arguments) {
		t.Errorf("%d cases for %d tools", cases, len(gate03Arguments))
	}
}

// gate03HTTP are tools with an effect behind a network.
func gate03HTTP(t *testing.T, url string) []tool.Tool {
	t.Helper()
	allow, err := egress.Parse(strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	o := builtin.Options{Egress: allow, Demo: builtin.DemoSink{URL: url}}
	return []tool.Tool{
		builtin.DemoWrite(o, "demo.http_once", tool.ExternalWrite, tool.NonIdempotent),
		builtin.DemoWrite(o, "demo.http_keyed", tool.ExternalWrite, tool.ConditionallyIdempotent),
	}
}

func gate03Run(t *testing.T, name string) {
	t.Helper()
	s := systemtest.New(t).Patient()
	s.Config.Sandbox.AllowUnconfined = true
	sql := s.SQL(t)
	// Whoever sets a watermark waits here for as long as the test wants.
	sql.Exec(t, `CREATE FUNCTION hold_watermark() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM pg_advisory_xact_lock(3); RETURN NEW; END $$;
		CREATE TRIGGER hold_watermark BEFORE UPDATE OF effect_sent_at ON tool_invocations
		FOR EACH ROW EXECUTE FUNCTION hold_watermark()`)
	var arrived, unmarked atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e builtin.DemoEffect
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &e) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		arrived.Add(1)
		var marked bool
		err = sql.Pool.QueryRow(r.Context(), `SELECT effect_sent_at IS NOT NULL FROM tool_invocations WHERE id = $1`, e.InvocationID).Scan(&marked)
		if err != nil || !marked {
			unmarked.Add(1)
		}
	}))
	t.Cleanup(sink.Close)
	s.Start(t, func(o *app.Options) { o.Tools = append(o.Tools, gate03HTTP(t, sink.URL)...) }, systemtest.Core()...)
	r := s.OpenRuntime(t, "acme", nil)
	workspace := filepath.Join(s.Dir, "workspaces", "acme", r.Run.String())
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(workspace, "touched"), []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	touched := func() bool {
		file, err := os.ReadFile(filepath.Join(workspace, "touched"))
		return len(s.Effects(t)) > 0 || arrived.Load() > 0 || err != nil || string(file) != "old\n"
	}

	release := sql.Hold(t, `SELECT pg_advisory_xact_lock(3)`)
	r.Propose(t, 1, systemtest.Call("c1", name, gate03Arguments[name]))
	sql.Await(t, `SELECT count(*) = 1 FROM tool_invocations WHERE run_id = $1`, r.Run)
	if sql.Count(t, `SELECT count(*) FROM tool_invocations WHERE run_id = $1 AND status = 'waiting_for_approval'`, r.Run) == 1 {
		r.Decide(t, r.Approval(t, 1, "c1"), subjects.DecisionApprove)
	}
	sql.AwaitBlocked(t, "toolbus mark", 1)
	if touched() {
		t.Error("the target was touched before the watermark was committed")
	}
	release(true)
	if o := r.Outcome(t, 1, "c1"); o.Status != tool.OutcomeSucceeded {
		t.Errorf("%s %+v", o.Status, o.Item.Outcome)
	}
	if !touched() {
		t.Error("the target was never touched: the gate saw nothing")
	}
	if n := unmarked.Load(); n != 0 {
		t.Errorf("the target was touched %d times without a watermark", n)
	}
}
