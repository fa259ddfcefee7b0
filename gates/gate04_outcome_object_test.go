package gates

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolbus/toolbus/outcome"
	"github.com/toolbus/toolbus/tool"
)

// gate04Action is the tool every object of this gate speaks of.
const gate04Action = "demo.external_write"

// gate04Row is a row of the checked-in table, read here without the package
// that is under test.
type gate04Row struct {
	Code        string             `json:"code"`
	Status      tool.OutcomeStatus `json:"status"`
	Retryable   bool               `json:"retryable"`
	Remediation string             `json:"remediation"`
	Message     string             `json:"message"`
}

func gate04Table(t *testing.T) []gate04Row {
	t.Helper()
	file, err := os.ReadFile("../outcome/reasons.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []gate04Row
	if err := json.Unmarshal(file, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Fatal("the table has no rows")
	}
	return rows
}

// gate04Message gives the outcome message of a call with this item, as it goes
// over the bus, and the bytes of item.outcome in it.
func gate04Message(t *testing.T, status tool.OutcomeStatus, item outcome.Item) json.RawMessage {
	t.Helper()
	message := outcome.Message(outcome.Row{
		RunID: tool.NewID(), SessionID: tool.NewID(), InvocationID: tool.NewID(), StepNumber: 1, CallID: "call_1",
		ToolName: gate04Action, Status: status, Item: item,
	}, 0)
	var wire struct {
		Item struct {
			Outcome json.RawMessage `json:"outcome"`
		} `json:"item"`
	}
	if err := json.Unmarshal(message, &wire); err != nil {
		t.Fatalf("%s: %v", message, err)
	}
	if wire.Item.Outcome == nil {
		t.Fatalf("%s has no item.outcome", message)
	}
	return wire.Item.Outcome
}

// gate04Fields gives the member names of a flat object in the order of its bytes.
func gate04Fields(t *testing.T, object json.RawMessage) []string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(object))
	var tokens []json.Token
	for dec.More() || len(tokens) == 0 {
		token, err := dec.Token()
		if err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		tokens = append(tokens, token)
	}
	var names []string
	for i := 1; i < len(tokens); i += 2 {
		name, ok := tokens[i].(string)
		if !ok {
			t.Fatalf("%s is not a flat object", object)
		}
		names = append(names, name)
	}
	return names
}

// TestGate04_OutcomeObject shows, on the bytes that go over the bus, that every
// outcome but a success carries an object of exactly six fields whose message is
// the checked-in one, for every status and every reason code, with and without
// a detail behind the code.
func TestGate04_OutcomeObject(t *testing.T) {
	t.Parallel()
	rows := gate04Table(t)
	table, err := outcome.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range tool.OutcomeStatuses() {
		if status == tool.OutcomeSucceeded {
			continue
		}
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			own := 0
			for _, row := range rows {
				for _, code := range []string{row.Code, row.Code + ".detail_1"} {
					object := table.Object(status, gate04Action, code)
					gate04Check(t, rows, row, status, code, gate04Message(t, status, outcome.Conclude(object)))
				}
				if row.Status == status {
					own++
				}
			}
			if own == 0 {
				t.Errorf("no reason code explains the status %s", status)
			}
		})
	}
	t.Run("success has none", func(t *testing.T) {
		t.Parallel()
		gate04Admitted(t, table)
	})
}

// gate04Check compares one serialized object with the table. A code asked for
// under another status than its row's must have been replaced by one of that
// status.
func gate04Check(
	t *testing.T, rows []gate04Row, row gate04Row, status tool.OutcomeStatus, code string, object json.RawMessage,
) {
	t.Helper()
	want := []string{"status", "action", "reason_code", "message", "retryable", "remediation"}
	if diff := cmp.Diff(want, gate04Fields(t, object)); diff != "" {
		t.Errorf("%s %s: fields:\n%s", status, code, diff)
	}
	var got struct {
		Status      tool.OutcomeStatus `json:"status"`
		Action      string             `json:"action"`
		ReasonCode  string             `json:"reason_code"`
		Message     string             `json:"message"`
		Retryable   bool               `json:"retryable"`
		Remediation string             `json:"remediation"`
	}
	if err := json.Unmarshal(object, &got); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	if row.Status == status {
		if got.ReasonCode != code {
			t.Errorf("%s %s: reason code %s", status, code, got.ReasonCode)
		}
	} else {
		at := slices.IndexFunc(rows, func(r gate04Row) bool { return r.Code == got.ReasonCode })
		if at < 0 || strings.HasPrefix(got.ReasonCode, row.Code) {
			t.Fatalf("%s %s: reason code %s", status, code, got.ReasonCode)
		}
		row = rows[at]
	}
	if got.Status != status || row.Status != status || got.Action != gate04Action {
		t.Errorf("%s %s: status %s, action %s", status, code, got.Status, got.Action)
	}
	if got.Message != row.Message || got.Retryable != row.Retryable || got.Remediation != row.Remediation {
		t.Errorf("%s %s: %s, want the text of %s", status, code, object, row.Code)
	}
}

// gate04Admitted shows that item.outcome is null exactly on a success, and the
// object of a failure is the admitted one.
func gate04Admitted(t *testing.T, table *outcome.Table) {
	t.Helper()
	spec := tool.Spec{
		Name: gate04Action, Source: tool.Builtin, Kind: tool.Capability, OutputTrust: tool.InternalTool, MaximumOutputBytes: 4096,
	}
	for _, result := range []tool.Result{
		tool.Succeed(tool.Text("done")), tool.Fail(tool.FailTimeout, "for operators"),
	} {
		status := tool.OutcomeFailed
		if result.OK {
			status = tool.OutcomeSucceeded
		}
		plan, err := table.Measure(outcome.Input{Spec: spec, Result: result, InlineMaximum: 4096})
		if err != nil {
			t.Fatal(err)
		}
		admitted, err := plan.Render(nil)
		if err != nil {
			t.Fatal(err)
		}
		object := gate04Message(t, status, admitted.Item)
		if isNull := string(object) == "null"; isNull != (status == tool.OutcomeSucceeded) {
			t.Errorf("%s: item.outcome is %s", status, object)
		}
	}
}
