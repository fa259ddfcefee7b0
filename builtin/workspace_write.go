package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/toolbus/toolbus/tool"
)

type writeArgs struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

type writeResult struct {
	Path    string `json:"path"`
	Bytes   int    `json:"bytes"`
	Created bool   `json:"created"`
}

// workspaceWriteText writes a whole file. The same call twice leaves the same file, so
// it is idempotent.
func workspaceWriteText(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name: "workspace.write_text",
		Description: "Writes a UTF-8 text file in the run's workspace, replacing it whole if it exists and making missing directories. " +
			"The write is atomic. To change a part of a file use workspace.edit_text, which does not need the rest repeated.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"path": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "File to write, relative to the workspace."},
				"text": {"type": "string", "description": "The complete new content."}
			},
			"required": ["path", "text"]
		}`),
		OutputSchema: schema(`{
			"type": "object",
			"properties": {
				"path": {"type": "string"},
				"bytes": {"type": "integer"},
				"created": {"type": "boolean", "description": "Whether there was no such file before."}
			},
			"required": ["path", "bytes", "created"]
		}`),
		SideEffect: tool.WorkspaceWrite, Idempotency: tool.Idempotent,
		TimeoutSeconds: 30, MaximumOutputBytes: 4096,
	})
	return &simple[writeArgs]{spec: spec, run: writeText}
}

func writeText(ctx context.Context, a writeArgs, exec *tool.Execution) (tool.Result, error) {
	w, err := open(exec)
	if err != nil {
		return tool.Result{}, err
	}
	name, err := clean(a.Path)
	if err != nil {
		return settle(err)
	}
	if len(a.Text) > maximumFileBytes {
		return settle(errBig)
	}
	_, err = w.Lstat(name)
	created := errors.Is(err, fs.ErrNotExist)
	if err := w.replace(ctx, exec, name, []byte(a.Text)); err != nil {
		return settle(err)
	}
	r := writeResult{Path: name, Bytes: len(a.Text), Created: created}
	return succeed(fmt.Sprintf("wrote %d bytes to %s", r.Bytes, r.Path), r)
}

type deleteArgs struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive"`
}

type deleteResult struct {
	Path string `json:"path"`
}

// workspaceDelete removes a file or a directory. What is gone stays gone, so it is
// idempotent: a repeated attempt that finds nothing has found its own work.
func workspaceDelete(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name: "workspace.delete",
		Description: "Deletes a file, a symbolic link (not what it points to) or a directory of the run's workspace. There is no undo. " +
			"A directory that is not empty needs recursive.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"path": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "What to delete, relative to the workspace; not the workspace itself."},
				"recursive": {"type": "boolean", "default": false, "description": "Delete a directory with everything in it."}
			},
			"required": ["path"]
		}`),
		OutputSchema: schema(`{
			"type": "object",
			"properties": {"path": {"type": "string"}},
			"required": ["path"]
		}`),
		SideEffect: tool.WorkspaceWrite, Idempotency: tool.Idempotent, Risk: tool.RiskMedium,
		TimeoutSeconds: 60, MaximumOutputBytes: 4096,
	})
	return &simple[deleteArgs]{spec: spec, run: deletePath}
}

func deletePath(ctx context.Context, a deleteArgs, exec *tool.Execution) (tool.Result, error) {
	w, err := open(exec)
	if err != nil {
		return tool.Result{}, err
	}
	name, err := clean(a.Path)
	if err == nil && name == "." {
		err = errPath
	}
	if err != nil {
		return settle(err)
	}
	if _, err = w.Lstat(name); err == nil {
		if err = boundary(ctx, exec); err == nil {
			err = w.delete(name, a.Recursive)
		}
	}
	if err != nil && (exec.AttemptNumber <= 1 || !errors.Is(err, fs.ErrNotExist)) {
		return settle(err)
	}
	return succeed("deleted "+name, deleteResult{Path: name})
}

func (w workspace) delete(name string, recursive bool) error {
	if recursive {
		return w.RemoveAll(name)
	}
	if info, err := w.Lstat(name); err == nil && info.IsDir() {
		if list, err := w.entries(name); err == nil && len(list) > 0 {
			return &problem{tool.FailInvalidArguments, "not_empty", "the directory is not empty; set recursive to delete what is in it too"}
		}
		return w.RemoveAll(name) // what is left in it is what these tools hide
	}
	return w.Remove(name)
}
