package store

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/toolbus/toolbus/tool"
)

// The parameters of set-based statements are columns: one slice per column.

func uuid(id tool.ID) [16]byte { return id }

func optUUID(id tool.ID) *[16]byte {
	if id.IsZero() {
		return nil
	}
	b := [16]byte(id)
	return &b
}

func optText[S ~string](s S) *string {
	if s == "" {
		return nil
	}
	t := string(s)
	return &t
}

// optJSON passes JSON text through; PostgreSQL parses it.
func optJSON(j json.RawMessage) *string {
	if len(j) == 0 {
		return nil
	}
	s := string(j)
	return &s
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func idOf(b *[16]byte) tool.ID {
	if b == nil {
		return tool.ID{}
	}
	return *b
}

func artifactJSON(a *tool.ArtifactRef) *string {
	if a == nil {
		return nil
	}
	b, err := json.Marshal(a)
	if err != nil {
		return nil
	}
	s := string(b)
	return &s
}

func artifactOf(j []byte) *tool.ArtifactRef {
	if len(j) == 0 {
		return nil
	}
	var a tool.ArtifactRef
	if json.Unmarshal(j, &a) != nil {
		return nil
	}
	return &a
}

func trustJSON(t map[string]tool.Trust) string {
	if len(t) == 0 {
		return "{}"
	}
	b, err := json.Marshal(t)
	if err != nil {
		return "{}"
	}
	return string(b)
}

func outcomeStatus(s *string) tool.OutcomeStatus { return tool.OutcomeStatus(deref(s)) }

// storableText makes foreign text fit for a text column.
func storableText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
