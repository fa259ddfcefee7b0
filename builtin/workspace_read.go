package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/toolbus/toolbus/tool"
)

type listArgs struct {
	Path  string `json:"path"`
	Depth int    `json:"depth"`
	Limit int    `json:"limit"`
}

type listEntry struct {
	Path  string `json:"path"`
	Type  string `json:"type"`
	Bytes int64  `json:"bytes,omitempty"`
}

type listResult struct {
	Entries   []listEntry `json:"entries"`
	Truncated bool        `json:"truncated"`
}

// workspaceList lists a directory tree.
func workspaceList(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name: "workspace.list",
		Description: "Lists files and directories of the run's workspace in path order, with sizes. " +
			"Symbolic links are shown and not followed. Use workspace.search to find text inside files.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"path": {"type": "string", "default": ".", "minLength": 1, "maxLength": 1024, "description": "Directory to list, relative to the workspace; . is the workspace itself."},
				"depth": {"type": "integer", "default": 1, "minimum": 1, "maximum": 20, "description": "Levels to descend; 1 lists the directory alone."},
				"limit": {"type": "integer", "default": 500, "minimum": 1, "maximum": 2000, "description": "Most entries to return."}
			}
		}`),
		OutputSchema: schema(`{
			"type": "object",
			"properties": {
				"entries": {
					"type": "array",
					"items": {
						"type": "object",
						"properties": {
							"path": {"type": "string"},
							"type": {"enum": ["file", "directory", "symlink", "other"]},
							"bytes": {"type": "integer"}
						},
						"required": ["path", "type"]
					}
				},
				"truncated": {"type": "boolean", "description": "Whether there is more than limit."}
			},
			"required": ["entries", "truncated"]
		}`),
		SideEffect: tool.WorkspaceRead, Idempotency: tool.ReadOnly,
		TimeoutSeconds: 30, MaximumOutputBytes: 512 << 10, AllowParallel: true,
	})
	return &simple[listArgs]{spec: spec, defaults: listArgs{Path: ".", Depth: 1, Limit: 500}, run: list}
}

func list(ctx context.Context, a listArgs, exec *tool.Execution) (tool.Result, error) {
	w, err := open(exec)
	if err != nil {
		return tool.Result{}, err
	}
	dir, err := clean(a.Path)
	if err != nil {
		return settle(err)
	}
	r := listResult{Entries: []listEntry{}}
	var lines strings.Builder
	err = w.walk(ctx, dir, a.Depth, func(name string, entry fs.DirEntry) error {
		if len(r.Entries) >= min(a.Limit, 2000) {
			r.Truncated = true
			return fs.SkipAll
		}
		e := describe(name, entry)
		r.Entries = append(r.Entries, e)
		fmt.Fprintf(&lines, "%s\t%s\t%d\n", e.Type, e.Path, e.Bytes)
		return nil
	})
	if err != nil && !errors.Is(err, fs.SkipAll) {
		return settle(err)
	}
	switch {
	case len(r.Entries) == 0:
		lines.WriteString("(empty)")
	case r.Truncated:
		lines.WriteString("(there is more; raise limit or list a subdirectory)")
	}
	text := strings.TrimRight(lines.String(), "\n")
	result, err := succeed(text, r)
	result.Evidence = evidence(text)
	return result, err
}

func describe(name string, entry fs.DirEntry) listEntry {
	e := listEntry{Path: name, Type: "other"}
	switch {
	case entry.Type().IsRegular():
		e.Type = "file"
		if info, err := entry.Info(); err == nil {
			e.Bytes = info.Size()
		}
	case entry.IsDir():
		e.Type = "directory"
	case entry.Type()&fs.ModeSymlink != 0:
		e.Type = "symlink"
	}
	return e
}

func sortEntries(all []fs.DirEntry) []fs.DirEntry {
	all = slices.DeleteFunc(all, func(e fs.DirEntry) bool { return reserved(e.Name()) })
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return all
}

type readArgs struct {
	Path      string `json:"path"`
	StartLine int    `json:"start_line"`
	Lines     int    `json:"lines"`
}

type readResult struct {
	Path       string `json:"path"`
	Bytes      int    `json:"bytes"`
	SHA256     string `json:"sha256"`
	StartLine  int    `json:"start_line"`
	EndLine    int    `json:"end_line"`
	TotalLines int    `json:"total_lines"`
}

// workspaceReadText reads lines of a text file.
func workspaceReadText(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name: "workspace.read_text",
		Description: "Reads a UTF-8 text file of the run's workspace, whole or a range of lines. Files up to 8 MiB; binary files are refused " +
			"(export them with artifact.export). To find something in a large file, search for it first and read around the match.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"path": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "File to read, relative to the workspace."},
				"start_line": {"type": "integer", "default": 1, "minimum": 1, "maximum": 10000000, "description": "First line to return, from 1."},
				"lines": {"type": "integer", "default": 5000, "minimum": 1, "maximum": 100000, "description": "Most lines to return."}
			},
			"required": ["path"]
		}`),
		OutputSchema: schema(`{
			"type": "object",
			"properties": {
				"path": {"type": "string"},
				"bytes": {"type": "integer", "description": "Size of the whole file."},
				"sha256": {"type": "string", "description": "Digest of the whole file, in lower-case hex."},
				"start_line": {"type": "integer"},
				"end_line": {"type": "integer", "description": "Last line returned; below start_line when there is none."},
				"total_lines": {"type": "integer"}
			},
			"required": ["path", "bytes", "sha256", "start_line", "end_line", "total_lines"]
		}`),
		SideEffect: tool.WorkspaceRead, Idempotency: tool.ReadOnly,
		TimeoutSeconds: 30, MaximumOutputBytes: 512 << 10, AllowParallel: true,
	})
	return &simple[readArgs]{spec: spec, defaults: readArgs{StartLine: 1, Lines: 5000}, run: readText}
}

func readText(_ context.Context, a readArgs, exec *tool.Execution) (tool.Result, error) {
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
	lines := slices.Collect(strings.Lines(content))
	start := min(max(a.StartLine, 1), len(lines)+1)
	end := min(start-1+max(a.Lines, 1), len(lines))
	r := readResult{
		Path: name, Bytes: len(content), SHA256: digest(content),
		StartLine: start, EndLine: end, TotalLines: len(lines),
	}
	selected, err := io.ReadAll(exec.Bounded(strings.NewReader(strings.Join(lines[start-1:end], ""))))
	if errors.Is(err, tool.ErrOutputTooLarge) {
		return tooLarge(tool.Text(strings.ToValidUTF8(string(selected), ""))), nil
	}
	result, err := succeed(string(selected), r)
	result.Evidence = evidence(r.SHA256, string(selected))
	return result, err
}
