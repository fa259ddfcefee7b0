package canonical_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/toolbus/toolbus/canonical"
	"github.com/toolbus/toolbus/tool"
)

type formVector struct {
	Name     string `json:"name"`
	Input    string `json:"input"`
	InputHex string `json:"input_hex"`
	Form     string `json:"form"`
	SHA256   string `json:"sha256"`
	Rule     string `json:"rule"`
}

func (v formVector) bytes(t testing.TB) []byte {
	t.Helper()
	if v.InputHex == "" {
		return []byte(v.Input)
	}
	raw, err := hex.DecodeString(v.InputHex)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

type keyVector struct {
	Name          string  `json:"name"`
	RunID         tool.ID `json:"run_id"`
	Step          int     `json:"step"`
	CallID        string  `json:"call_id"`
	ToolName      string  `json:"tool_name"`
	ToolVersion   string  `json:"tool_version"`
	ArgumentsHash string  `json:"arguments_hash"`
	Key           string  `json:"key"`
}

type vectorFile struct {
	Forms []formVector `json:"forms"`
	Keys  []keyVector  `json:"keys"`
}

func readVectors(t testing.TB) vectorFile {
	t.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file vectorFile
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Forms) == 0 || len(file.Keys) == 0 {
		t.Fatal("the vector file is empty")
	}
	return file
}

func TestFormVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Forms {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			form, err := canonical.Form(v.bytes(t))
			tree, parseErr := canonical.Parse(v.bytes(t))
			if v.Rule != "" {
				wantRule(t, err, v.Rule)
				wantRule(t, parseErr, v.Rule)
				return
			}
			if err != nil || parseErr != nil {
				t.Fatalf("refused: %v, %v", err, parseErr)
			}
			if string(form) != v.Form {
				t.Errorf("Form = %s, want %s", form, v.Form)
			}
			if got := canonical.Hash(form); got != v.SHA256 {
				t.Errorf("Hash = %s, want %s", got, v.SHA256)
			}
			encoded, err := canonical.Encode(tree)
			if err != nil || string(encoded) != v.Form {
				t.Errorf("Encode(Parse) = %s, %v, want %s", encoded, err, v.Form)
			}
		})
	}
}

func wantRule(t *testing.T, err error, rule string) {
	t.Helper()
	var refused *canonical.Error
	if !errors.As(err, &refused) || refused.Rule != rule {
		t.Errorf("error = %v, want rule %q", err, rule)
	}
}

func TestKeyVectors(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, v := range readVectors(t).Keys {
		got := canonical.Key(canonical.KeyInput{
			RunID: v.RunID, Step: v.Step, CallID: v.CallID,
			ToolName: v.ToolName, ToolVersion: v.ToolVersion, ArgumentsHash: v.ArgumentsHash,
		})
		if got != v.Key {
			t.Errorf("%s: Key = %s, want %s", v.Name, got, v.Key)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%s has the key of %s", v.Name, other)
		}
		seen[got] = v.Name
	}
}
