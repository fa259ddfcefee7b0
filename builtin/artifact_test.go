package builtin_test

import (
	"strings"
	"testing"

	"github.com/toolbus/toolbus/builtin"
)

func TestArtifactExport(t *testing.T) {
	t.Parallel()
	b := newBench(t, builtin.Options{MaximumOutputBytes: 1000})
	b.write(t, "table.csv", "a,b\n")
	b.write(t, "picture", "\x89PNG\r\n\x1a\n rest")
	b.write(t, "exact", strings.Repeat("x", 4000))
	b.write(t, "over", strings.Repeat("x", 4001))
	for arguments, want := range map[string]string{
		`{"path":"table.csv"}`:                                "text/csv; charset=utf-8",
		`{"path":"table.csv","media_type":"application/foo"}`: "application/foo",
		`{"path":"picture"}`:                                  "image/png",
		`{"path":"exact"}`:                                    "text/plain; charset=utf-8",
	} {
		r, err := b.execute(t, "artifact.export", arguments)
		if err != nil || !r.OK || len(r.Artifacts) != 1 || r.Artifacts[0].MediaType != want {
			t.Fatalf("%s: %+v, %v", arguments, r, err)
		}
		if stored := b.artifacts.stored[len(b.artifacts.stored)-1]; int64(len(stored)) != r.Artifacts[0].Bytes || len(stored) == 0 {
			t.Errorf("%s: stored %q", arguments, stored)
		}
	}
	if got := b.refuse(t, "artifact.export", `{"path":"over"}`); got != "tool.output_too_large" || len(b.artifacts.stored) != 4 {
		t.Errorf("over the ceiling: %s, %d stored", got, len(b.artifacts.stored))
	}
	if got := b.refuse(t, "artifact.export", `{"path":"exact","media_type":"none"}`); got != "tool.invalid_arguments.media_type" {
		t.Errorf("media type: %s", got)
	}
}
