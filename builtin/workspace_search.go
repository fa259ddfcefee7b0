package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/toolbus/toolbus/tool"
)

type searchArgs struct {
	Pattern       string `json:"pattern"`
	Regexp        bool   `json:"regexp"`
	CaseSensitive bool   `json:"case_sensitive"`
	Path          string `json:"path"`
	Include       string `json:"include"`
	Limit         int    `json:"limit"`
}

type searchMatch struct {
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
}

type searchResult struct {
	Matches []searchMatch `json:"matches"`
	Files   int           `json:"files"`
	Skipped int           `json:"skipped"`
	// Truncated says that the search ended before the workspace did.
	Truncated bool `json:"truncated"`
}

var (
	errPattern = &problem{tool.FailInvalidArguments, "pattern", "the pattern is not a regular expression in RE2 syntax"}
	errInclude = &problem{tool.FailInvalidArguments, "include", "include is not a glob"}
)

const (
	// searchBudget bounds the bytes one search reads, shownBytes what it shows of a line.
	searchBudget = 128 << 20
	shownBytes   = 400
	searchDepth  = 64
)

// workspaceSearch finds lines in text files.
func workspaceSearch(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name: "workspace.search",
		Description: "Finds lines that match a text or a regular expression (RE2 syntax, one line at a time) in the text files of the " +
			"run's workspace. Binary files and files above 8 MiB are skipped and counted. Returns path, line, column and the line.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "What to find."},
				"regexp": {"type": "boolean", "default": false, "description": "Take the pattern as a regular expression instead of literally."},
				"case_sensitive": {"type": "boolean", "default": true, "description": "Whether capitals matter."},
				"path": {"type": "string", "default": ".", "minLength": 1, "maxLength": 1024, "description": "Directory to search, relative to the workspace."},
				"include": {"type": "string", "default": "*", "minLength": 1, "maxLength": 200, "description": "Glob on file names, such as *.go."},
				"limit": {"type": "integer", "default": 100, "minimum": 1, "maximum": 1000, "description": "Most matches to return."}
			},
			"required": ["pattern"]
		}`),
		OutputSchema: schema(`{
			"type": "object",
			"properties": {
				"matches": {
					"type": "array",
					"items": {
						"type": "object",
						"properties": {
							"path": {"type": "string"},
							"line": {"type": "integer"},
							"column": {"type": "integer", "description": "In bytes, from 1."},
							"text": {"type": "string", "description": "The line, cut at 400 bytes."}
						},
						"required": ["path", "line", "column", "text"]
					}
				},
				"files": {"type": "integer", "description": "Files searched."},
				"skipped": {"type": "integer", "description": "Files that are binary, too large or unreadable."},
				"truncated": {"type": "boolean", "description": "Whether the search ended early, at limit or after 128 MiB."}
			},
			"required": ["matches", "files", "skipped", "truncated"]
		}`),
		SideEffect: tool.WorkspaceRead, Idempotency: tool.ReadOnly,
		TimeoutSeconds: 60, MaximumOutputBytes: 1 << 20, AllowParallel: true,
	})
	defaults := searchArgs{CaseSensitive: true, Path: ".", Include: "*", Limit: 100}
	return &simple[searchArgs]{spec: spec, defaults: defaults, run: search}
}

func search(ctx context.Context, a searchArgs, exec *tool.Execution) (tool.Result, error) {
	w, err := open(exec)
	if err != nil {
		return tool.Result{}, err
	}
	dir, err := clean(a.Path)
	if err != nil {
		return settle(err)
	}
	pattern, err := compilePattern(a)
	if err != nil {
		return settle(errPattern)
	}
	if _, err := path.Match(a.Include, ""); err != nil {
		return settle(errInclude)
	}
	s := searcher{workspace: w, pattern: pattern, limit: min(a.Limit, 1000), budget: searchBudget}
	s.result.Matches = []searchMatch{}
	err = w.walk(ctx, dir, searchDepth, func(name string, entry fs.DirEntry) error {
		if ok, _ := path.Match(a.Include, entry.Name()); !ok || !entry.Type().IsRegular() {
			return ctx.Err()
		}
		s.file(name)
		if s.result.Truncated {
			return fs.SkipAll
		}
		return ctx.Err()
	})
	if err != nil && !errors.Is(err, fs.SkipAll) {
		return settle(err)
	}
	text := s.text()
	result, err := succeed(text, s.result)
	result.Evidence = evidence(text)
	return result, err
}

func compilePattern(a searchArgs) (*regexp.Regexp, error) {
	expression := a.Pattern
	if !a.Regexp {
		expression = regexp.QuoteMeta(expression)
	}
	if !a.CaseSensitive {
		expression = "(?i)" + expression
	}
	return regexp.Compile(expression)
}

// searcher goes through files.
type searcher struct {
	workspace workspace
	pattern   *regexp.Regexp
	limit     int
	budget    int
	result    searchResult
}

func (s *searcher) file(name string) {
	content, err := s.workspace.text(name)
	if err != nil {
		s.result.Skipped++
		return
	}
	s.result.Files++
	s.budget -= len(content)
	number := 0
	for line := range strings.Lines(content) {
		number++
		line = strings.TrimRight(line, "\r\n")
		at := s.pattern.FindStringIndex(line)
		if at == nil {
			continue
		}
		if len(s.result.Matches) == s.limit {
			s.result.Truncated = true
			return
		}
		s.result.Matches = append(s.result.Matches, searchMatch{Path: name, Line: number, Column: at[0] + 1, Text: shown(line, at[0])})
	}
	s.result.Truncated = s.budget <= 0
}

// shown cuts a long line around the match.
func shown(line string, at int) string {
	if len(line) <= shownBytes {
		return line
	}
	from := max(0, min(at-shownBytes/4, len(line)-shownBytes))
	for from > 0 && !utf8.RuneStart(line[from]) {
		from--
	}
	to := min(from+shownBytes, len(line))
	for to < len(line) && !utf8.RuneStart(line[to]) {
		to--
	}
	return line[from:to]
}

func (s *searcher) text() string {
	var b strings.Builder
	for _, m := range s.result.Matches {
		fmt.Fprintf(&b, "%s:%d:%d: %s\n", m.Path, m.Line, m.Column, m.Text)
	}
	fmt.Fprintf(&b, "%d matches, %d files searched, %d skipped", len(s.result.Matches), s.result.Files, s.result.Skipped)
	if s.result.Truncated {
		b.WriteString("; there may be more")
	}
	return b.String()
}
