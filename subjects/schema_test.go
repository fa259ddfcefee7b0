package subjects_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolbus/toolbus/subjects"
	"github.com/toolbus/toolbus/tool"
)

var update = flag.Bool("update", false, "write the schemas of docs/protocol anew")

const schemaDir = "../docs/protocol"

// messages are the payloads that have a schema, a golden file and a decoder.
func messages() map[string]any {
	return map[string]any{
		"proposal":              subjects.Proposal{},
		"outcome":               subjects.Outcome{},
		"pending":               subjects.Pending{},
		"refusal":               subjects.Refusal{},
		"hints":                 subjects.Hints{},
		"command_cancel":        subjects.Cancel{},
		"command_resume":        subjects.Resume{},
		"command_session_close": subjects.SessionClose{},
		"command_run_end":       subjects.RunEnd{},
		"command_approval":      subjects.Approval{},
		"command_review":        subjects.Review{},
		"command_revoke":        subjects.Revoke{},
		"call_event":            subjects.CallEvent{},
		"event":                 subjects.Event{},
		"stop":                  subjects.Stop{},
		"rpc_error":             subjects.RPCError{},

		"session_open_request":      subjects.SessionOpenRequest{},
		"session_open_response":     subjects.SessionOpenResponse{},
		"outcome_get_request":       subjects.OutcomeGetRequest{},
		"outcome_get_response":      subjects.OutcomeGetResponse{},
		"command_get_request":       subjects.CommandGetRequest{},
		"command_get_response":      subjects.CommandGetResponse{},
		"approvals_list_request":    subjects.ApprovalsListRequest{},
		"approvals_list_response":   subjects.ApprovalsListResponse{},
		"uncertain_list_request":    subjects.UncertainListRequest{},
		"uncertain_list_response":   subjects.UncertainListResponse{},
		"invocations_get_request":   subjects.InvocationsGetRequest{},
		"invocations_get_response":  subjects.InvocationsGetResponse{},
		"invocations_list_request":  subjects.InvocationsListRequest{},
		"invocations_list_response": subjects.InvocationsListResponse{},
		"artifacts_get_request":     subjects.ArtifactsGetRequest{},
		"artifacts_get_response":    subjects.ArtifactsGetResponse{},
	}
}

type schema = map[string]any

const (
	ident = `^[A-Za-z0-9._:-]{1,128}$`
	token = `^[A-Za-z0-9_-]{1,64}$`
)

// grammars are the rules of single members beyond their type, by name.
func grammars() map[string]schema {
	return map[string]schema{
		"call_id":        {"pattern": ident},
		"command_id":     {"pattern": ident},
		"request_id":     {"pattern": ident},
		"tenant_id":      {"pattern": token},
		"step_number":    {"minimum": 0, "maximum": 2147483647},
		"n":              {"minimum": 0, "maximum": 2147483647},
		"seq":            {"minimum": 1},
		"event":          {"pattern": `^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$`},
		"comment":        {"maxLength": 4096},
		"max_tool_calls": {"minimum": 0, "maximum": 2147483647},

		"run_deadline_seconds":                {"minimum": 0, "maximum": 315360000},
		"proposal.calls":                      {"minItems": 1, "maxItems": subjects.MaxCalls},
		"proposal.calls.name":                 {"pattern": `^[A-Za-z0-9._-]{1,128}$`},
		"proposal.calls.arguments":            {"type": "object"},
		"hints.hints":                         {"minItems": 1, "maxItems": subjects.MaxHints},
		"refusal.refusal.code":                {"enum": subjects.RefusalCodes()},
		"pending.pending.kind":                {"enum": []string{"approval", "user_input", "child_run"}},
		"command_approval.decision":           {"enum": []string{"approve", "deny"}},
		"command_review.verdict":              {"enum": []string{"happened", "did_not_happen", "unknown"}},
		"command_revoke.principal":            {"pattern": token},
		"command_revoke.scopes":               {"minItems": 1, "maxItems": 128},
		"command_cancel.reason":               {"maxLength": 4096},
		"command_get_response.result":         {"enum": []string{"applied", "refused"}},
		"session_open_response.servers.state": {"enum": []string{"connected", "pinned", "unavailable"}},
		"outcome.item.outcome.remediation":    {"enum": []string{"none", "modify_arguments"}},
	}
}

// wholes are rules between members.
func wholes() map[string]schema {
	either := func(a, b string) schema {
		return schema{"oneOf": []schema{{"required": []string{a}}, {"required": []string{b}}}}
	}
	return map[string]schema{
		"command_resume": either("content", "child_result"),
		"hints.hints":    either("batch", "call"),
	}
}

func enums() map[reflect.Type][]string {
	return map[reflect.Type][]string{
		reflect.TypeFor[tool.Trust]():           {"external_untrusted", "internal_tool", "user", "trusted_configuration", "platform"},
		reflect.TypeFor[tool.Kind]():            {"capability", "control"},
		reflect.TypeFor[tool.SideEffect]():      {"none", "workspace_read", "workspace_write", "network_read", "external_read", "external_write", "code_execution", "platform_write"},
		reflect.TypeFor[tool.Risk]():            {"low", "medium", "high", "critical"},
		reflect.TypeFor[tool.Source]():          {"builtin", "mcp", "device", "sandbox"},
		reflect.TypeFor[tool.Idempotency]():     {"read_only", "idempotent", "conditionally_idempotent", "non_idempotent"},
		reflect.TypeFor[subjects.CommandKind](): {"cancel", "resume", "session_close", "run_end", "approval", "review", "revoke"},
	}
}

func schemaOf(t reflect.Type, path string) schema {
	s := typeSchema(t, path)
	name := path[strings.LastIndexByte(path, '.')+1:]
	for _, key := range []string{name, path} {
		maps.Copy(s, grammars()[key])
	}
	return s
}

func typeSchema(t reflect.Type, path string) schema {
	switch t {
	case reflect.TypeFor[subjects.Version]():
		return schema{"const": 1}
	case reflect.TypeFor[tool.ID]():
		return schema{"type": "string", "pattern": `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`}
	case reflect.TypeFor[time.Time]():
		return schema{"type": "string", "format": "date-time", "pattern": `(Z|\+00:00)$`}
	case reflect.TypeFor[json.RawMessage]():
		return schema{}
	case reflect.TypeFor[tool.Part]():
		return schema{"oneOf": []schema{partSchema("text", "text"), partSchema("artifact", "artifact_id", "media_type", "bytes", "sha256")}}
	case reflect.TypeFor[tool.OutcomeStatus]():
		if strings.HasPrefix(path, "invocations_") || strings.HasPrefix(path, "uncertain_") {
			return schema{"enum": append(tool.OutcomeStatuses(), "")} // none before the end
		}
		return schema{"enum": tool.OutcomeStatuses()}
	case reflect.TypeFor[[]byte]():
		return schema{"type": "string", "contentEncoding": "base64"}
	}
	if words, ok := enums()[t]; ok {
		return schema{"enum": words}
	}
	switch t.Kind() {
	case reflect.Pointer:
		if strings.HasPrefix(path, "hints.") {
			return typeSchema(t.Elem(), path)
		}
		return schema{"anyOf": []schema{schemaOf(t.Elem(), path), {"type": "null"}}}
	case reflect.Struct:
		return structSchema(t, path)
	case reflect.Slice:
		return schema{"type": "array", "items": schemaOf(t.Elem(), path+".")}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return schema{"type": "object"}
		}
		return schema{"type": "object", "additionalProperties": schemaOf(t.Elem(), path+".")}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Int, reflect.Int64:
		return schema{"type": "integer"}
	default:
		return schema{"type": "string"}
	}
}

func structSchema(t reflect.Type, path string) schema {
	properties, required := schema{}, []string{}
	path = strings.TrimSuffix(path, ".")
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		properties[name] = schemaOf(field.Type, path+"."+name)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	s := schema{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
	maps.Copy(s, wholes()[path])
	return s
}

func partSchema(kind string, members ...string) schema {
	properties := schema{"type": schema{"const": kind}}
	for _, name := range members {
		properties[name] = schema{"type": "string"}
	}
	if kind == tool.PartArtifact {
		properties["bytes"] = schema{"type": "integer", "minimum": 0}
	}
	return schema{
		"type": "object", "additionalProperties": false, "properties": properties,
		"required": append([]string{"type"}, members...),
	}
}

// Every payload has a schema that says the same as its type, and a golden file
// that the schema and the decoder accept and that encodes to itself.
func TestSchemas(t *testing.T) {
	t.Parallel()
	for name, message := range messages() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := schemaOf(reflect.TypeOf(message), name)
			s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "toolbus "+strings.ReplaceAll(name, "_", " ")
			text, err := json.MarshalIndent(s, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(schemaDir, name+".schema.json")
			text = append(text, '\n')
			if *update {
				if err := os.WriteFile(file, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if have := read(t, file); !bytes.Equal(have, text) {
				t.Errorf("%s does not say what the type says; write it anew with -update", file)
			}
			checkGolden(t, name, file, message)
		})
	}
}

func checkGolden(t *testing.T, name, file string, message any) {
	t.Helper()
	compiled, err := jsonschema.NewCompiler().Compile(file)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	golden := read(t, filepath.Join("testdata/golden", name+".json"))
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(golden))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(value); err != nil {
		t.Errorf("the golden file is not valid: %v", err)
	}
	into := reflect.New(reflect.TypeOf(message))
	if err := subjects.Decode(golden, into.Interface()); err != nil {
		t.Fatalf("the golden file does not decode: %v", err)
	}
	again, err := json.Marshal(into.Interface())
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, golden); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(compact.Bytes(), again) {
		t.Errorf("encodes to other bytes:\n%s\n%s", again, compact.Bytes())
	}
	for _, broken := range spoil(t, golden) {
		fresh := reflect.New(reflect.TypeOf(message))
		if err := subjects.Decode(broken, fresh.Interface()); err == nil {
			t.Errorf("decoded %s", broken)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(broken))
		if err == nil && compiled.Validate(value) == nil {
			t.Errorf("the schema accepts %s", broken)
		}
	}
}

// spoil gives variants of a payload that nobody may accept: another version, an
// unknown member, an empty object.
func spoil(t *testing.T, golden []byte) [][]byte {
	t.Helper()
	out := [][]byte{[]byte(`{}`), append([]byte(`{"extra":1,`), bytes.TrimSpace(golden)[1:]...)}
	if v := bytes.Replace(golden, []byte(`"v": 1`), []byte(`"v": 2`), 1); !bytes.Equal(v, golden) {
		out = append(out, v)
	}
	return out
}

func read(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// No schema and no golden file without a message.
func TestNothingStale(t *testing.T) {
	t.Parallel()
	known := messages()
	for dir, suffix := range map[string]string{schemaDir: ".schema.json", "testdata/golden": ".json"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			if name, ok := strings.CutSuffix(e.Name(), suffix); ok {
				names = append(names, name)
				if _, ok := known[name]; !ok {
					t.Errorf("%s/%s belongs to no message", dir, e.Name())
				}
			}
		}
		for name := range known {
			if !slices.Contains(names, name) {
				t.Errorf("%s has no file in %s", name, dir)
			}
		}
	}
}
