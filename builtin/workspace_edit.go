package builtin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/toolbus/toolbus/tool"
)

type editArgs struct {
	Path    string `json:"path"`
	OldText string `json:"old_text"`
	NewText string `json:"new_text"`
	Count   int    `json:"count"`
}

type editResult struct {
	Path         string `json:"path"`
	Replacements int    `json:"replacements"`
	Bytes        int    `json:"bytes"`
	SHA256       string `json:"sha256"`
}

// workspaceEditText replaces text in a file. An edit applied twice is another edit
// (where the new text holds the old one it would even succeed), so each leaves a record
// under its idempotency key before the file changes: a repeated attempt recognizes its
// own work by it. That makes the tool conditionally idempotent.
func workspaceEditText(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name: "workspace.edit_text",
		Description: "Replaces an exact text in a UTF-8 file of the run's workspace. old_text must occur exactly count times (once by default), " +
			"otherwise nothing is changed: include enough of the surrounding lines to make it unique. Compared byte by byte, white space included; " +
			"arguments arrive in Unicode NFC. The change is atomic.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"path": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "File to edit, relative to the workspace."},
				"old_text": {"type": "string", "minLength": 1, "description": "The text to replace, exactly as it stands in the file."},
				"new_text": {"type": "string", "description": "What to put in its place; empty deletes it."},
				"count": {"type": "integer", "default": 1, "minimum": 1, "maximum": 10000, "description": "How often old_text occurs in the file; all of them are replaced."}
			},
			"required": ["path", "old_text", "new_text"]
		}`),
		OutputSchema: schema(`{
			"type": "object",
			"properties": {
				"path": {"type": "string"},
				"replacements": {"type": "integer"},
				"bytes": {"type": "integer", "description": "Size of the file after the edit."},
				"sha256": {"type": "string", "description": "Digest of the file after the edit, in lower-case hex."}
			},
			"required": ["path", "replacements", "bytes", "sha256"]
		}`),
		SideEffect: tool.WorkspaceWrite, Idempotency: tool.ConditionallyIdempotent,
		TimeoutSeconds: 30, MaximumOutputBytes: 4096,
	})
	return &simple[editArgs]{spec: spec, defaults: editArgs{Count: 1}, run: editText}
}

// editRecord tells a repeated attempt what an earlier one was about to do.
type editRecord struct {
	Path   string `json:"path"`
	Before string `json:"before"`
	After  string `json:"after"`
	Count  int    `json:"count"`
}

func editText(ctx context.Context, a editArgs, exec *tool.Execution) (tool.Result, error) {
	w, err := open(exec)
	if err != nil {
		return tool.Result{}, err
	}
	name, err := clean(a.Path)
	if err != nil {
		return settle(err)
	}
	content, err := w.text(name)
	if err != nil {
		return settle(err)
	}
	if done, err := w.alreadyEdited(exec, name, content); err != nil || done > 0 {
		if err != nil {
			return settle(err)
		}
		return edited(name, content, done)
	}
	changed, err := substitute(content, a)
	if err != nil {
		return settle(err)
	}
	if err := boundary(ctx, exec); err != nil {
		return tool.Result{}, err
	}
	record := editRecord{Path: name, Before: digest(content), After: digest(changed), Count: a.Count}
	if err := w.remember(exec, record); err != nil {
		return settle(err)
	}
	if err := w.replace(ctx, exec, name, []byte(changed)); err != nil {
		return settle(err)
	}
	return edited(name, changed, a.Count)
}

func edited(name, content string, count int) (tool.Result, error) {
	r := editResult{Path: name, Replacements: count, Bytes: len(content), SHA256: digest(content)}
	return succeed(fmt.Sprintf("replaced %d in %s, which now has %d bytes", count, name, r.Bytes), r)
}

// substitute applies the rule of uniqueness.
func substitute(content string, a editArgs) (string, error) {
	if a.OldText == "" || a.OldText == a.NewText {
		return "", &problem{tool.FailInvalidArguments, "no_change", "old_text and new_text must differ, and old_text must not be empty"}
	}
	switch n := strings.Count(content, a.OldText); {
	case n == 0:
		return "", &problem{tool.FailNotFound, "text", "old_text does not occur in the file; read it again and copy the text exactly"}
	case n != a.Count:
		return "", &problem{tool.FailInvalidArguments, "count", fmt.Sprintf("old_text occurs %d times, not %d; nothing was changed", n, a.Count)}
	}
	changed := strings.ReplaceAll(content, a.OldText, a.NewText)
	if len(changed) > maximumFileBytes {
		return "", errBig
	}
	return changed, nil
}

// alreadyEdited gives the number of replacements an earlier attempt of this very call
// made, 0 when it did not come so far. A file that is neither as it was before nor as
// it was to become has been changed by somebody else: the edit is refused.
func (w workspace) alreadyEdited(exec *tool.Execution, name, content string) (int, error) {
	if exec.AttemptNumber <= 1 {
		return 0, nil
	}
	data, err := w.text(recordName(exec))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var r editRecord
	if err := json.Unmarshal([]byte(data), &r); err != nil || r.Path != name {
		return 0, nil //nolint:nilerr // a torn record was written before any change
	}
	switch digest(content) {
	case r.After:
		return r.Count, nil
	case r.Before:
		return 0, nil
	}
	return 0, &problem{tool.FailInvalidArguments, "conflict", "the file was changed by somebody else; read it again"}
}

func (w workspace) remember(exec *tool.Execution, r editRecord) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the edit record: %w", err)
	}
	name := recordName(exec)
	if err := w.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return w.create(name, data, 0o600)
}

func recordName(exec *tool.Execution) string {
	return reservedPrefix + "edit-" + digest(exec.IdempotencyKey)[:32]
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
