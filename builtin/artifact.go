package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/toolbus/toolbus/tool"
)

type exportArgs struct {
	Path      string `json:"path"`
	MediaType string `json:"media_type"`
}

type exportResult struct {
	ArtifactID tool.ID `json:"artifact_id"`
	MediaType  string  `json:"media_type"`
	Bytes      int64   `json:"bytes"`
	SHA256     string  `json:"sha256"`
}

// artifactExport copies a file of the workspace into the artifact store.
//
// Its side effect is a read of the workspace: an artifact belongs to the run, as the
// artifact of any large output does, and is no durable state of the tenant, which is
// what platform_write means. A second execution stores the same bytes once more and
// the recorded result names one of them, so the class is idempotent and not read_only.
func artifactExport(o Options) tool.Tool {
	spec := o.declare(tool.Spec{
		Name: "artifact.export",
		Description: "Copies one file of the run's workspace, text or binary, into the artifact store, where people can download it, and gives " +
			"its reference. Use it to deliver a finished file. An artifact cannot be read back by a tool: keep working on the file itself.",
		InputSchema: schema(`{
			"type": "object",
			"properties": {
				"path": {"type": "string", "minLength": 1, "maxLength": 1024, "description": "File to export, relative to the workspace."},
				"media_type": {"type": "string", "default": "", "maxLength": 127, "description": "Its media type, such as text/csv; found out from name and content when empty."}
			},
			"required": ["path"]
		}`),
		OutputSchema: schema(`{
			"type": "object",
			"properties": {
				"artifact_id": {"type": "string"},
				"media_type": {"type": "string"},
				"bytes": {"type": "integer"},
				"sha256": {"type": "string"}
			},
			"required": ["artifact_id", "media_type", "bytes", "sha256"]
		}`),
		SideEffect: tool.WorkspaceRead, Idempotency: tool.Idempotent,
		TimeoutSeconds: 60, MaximumOutputBytes: 1 << 20,
	})
	return &simple[exportArgs]{spec: spec, run: export}
}

func export(ctx context.Context, a exportArgs, exec *tool.Execution) (tool.Result, error) {
	w, err := open(exec)
	if err != nil {
		return tool.Result{}, err
	}
	name, err := clean(a.Path)
	if err != nil {
		return settle(err)
	}
	f, info, err := w.reading(name)
	if err != nil {
		return settle(err)
	}
	defer func() { _ = f.Close() }()
	if info.Size() > exec.HardCeiling() {
		return tooLarge(), nil // nothing is stored of a file that would not be whole
	}
	mediaType, err := mediaTypeOf(a.MediaType, name, f)
	if err != nil {
		return settle(err)
	}
	ref, err := exec.Artifacts.Create(ctx, mediaType, exec.Bounded(f))
	if errors.Is(err, tool.ErrOutputTooLarge) {
		return tooLarge(), nil // it grew meanwhile
	}
	if err != nil {
		return tool.Result{}, fmt.Errorf("store the artifact: %w", err)
	}
	result, err := succeed(
		fmt.Sprintf("exported %s, %d bytes", name, ref.Bytes),
		exportResult{ArtifactID: ref.ID, MediaType: ref.MediaType, Bytes: ref.Bytes, SHA256: ref.SHA256},
	)
	result.Content = append(result.Content, tool.ArtifactPart(ref))
	result.Artifacts = []tool.ArtifactRef{ref}
	return result, err
}

// mediaTypes are the types of common names; the tables of a host differ from each other.
var mediaTypes = map[string]string{
	".csv": "text/csv; charset=utf-8", ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".json": "application/json", ".md": "text/markdown; charset=utf-8",
	".pdf": "application/pdf", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
	".xml": "application/xml", ".yaml": "application/yaml", ".yml": "application/yaml", ".zip": "application/zip",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}

// mediaTypeOf takes the declared type, that of the name, or that of the first bytes.
func mediaTypeOf(declared, name string, content io.ReadSeeker) (string, error) {
	if declared != "" {
		if plain, _, err := mime.ParseMediaType(declared); err != nil || !plainMediaType.MatchString(plain) {
			return "", &problem{tool.FailInvalidArguments, "media_type", "media_type is not a media type"}
		}
		return declared, nil
	}
	if byName, ok := mediaTypes[strings.ToLower(path.Ext(name))]; ok {
		return byName, nil
	}
	head := make([]byte, 512)
	n, err := io.ReadFull(content, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", fmt.Errorf("read the file: %w", err)
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("read the file: %w", err)
	}
	return http.DetectContentType(head[:n]), nil
}
