package canonical_test

import (
	"testing"

	"github.com/toolbus/toolbus/canonical"
	"github.com/toolbus/toolbus/tool"
)

var arguments = []byte(`{"title":"Deploy failed on host 7","labels":["ops","urgent"],` +
	`"due":{"year":2026,"month":12},"estimate":1.5,"assignee":null,"body":"see the log\nand the dashboard"}`)

func BenchmarkForm(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(arguments)))
	for b.Loop() {
		if _, err := canonical.Form(arguments); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseEncode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		tree, err := canonical.Parse(arguments)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := canonical.Encode(tree); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	b.ReportAllocs()
	in := canonical.KeyInput{
		RunID: tool.NewID(), Step: 7, CallID: "call_abc", ToolName: "workspace.write_text",
		ToolVersion: "1.0.0", ArgumentsHash: canonical.Hash(arguments),
	}
	for b.Loop() {
		canonical.Key(in)
	}
}
