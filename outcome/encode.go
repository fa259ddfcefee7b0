package outcome

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolbus/toolbus/tool"
)

// The encoder is written by hand for two reasons: sizes are limits here, so the
// cost of a text must be known without encoding it, and encoding/json escapes
// for HTML, which would charge a tool for framing nobody asked for.

const (
	emptyText    = `{"type":"text","text":""}`
	textOverhead = len(emptyText)
	hexDigits    = "0123456789abcdef"
)

// appendString appends s as a JSON string that escapes only what JSON demands.
// Bytes that are no UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = utf8.AppendRune(append(b, '\\'), r)
		case r >= ' ':
			b = utf8.AppendRune(b, r)
		case shortEscape(r) != 0:
			b = append(b, '\\', shortEscape(r))
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		}
	}
	return append(b, '"')
}

// shortEscape gives the letter of a two-character escape, 0 for none.
func shortEscape(r rune) byte {
	switch r {
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	}
	return 0
}

// runeCost is the number of bytes r takes inside a JSON string.
func runeCost(r rune) int {
	switch {
	case r == '"' || r == '\\' || shortEscape(r) != 0:
		return 2
	case r < ' ':
		return 6
	}
	return utf8.RuneLen(r)
}

// stringCost is the number of bytes s takes inside a JSON string, quotes excluded.
func stringCost(s string) int {
	n := 0
	for _, r := range s {
		n += runeCost(r)
	}
	return n
}

// prefixWithin gives the longest prefix of whole characters that costs at most
// budget bytes.
func prefixWithin(s string, budget int) string {
	for i, r := range s {
		if budget -= runeCost(r); budget < 0 {
			return s[:i]
		}
	}
	return s
}

// suffixWithin gives the longest suffix of whole characters that costs at most
// budget bytes.
func suffixWithin(s string, budget int) string {
	i := len(s)
	for i > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		if budget -= runeCost(r); budget < 0 {
			break
		}
		i -= size
	}
	return s[i:]
}

func isArtifact(p tool.Part) bool { return p.Type == tool.PartArtifact && p.ArtifactRef != nil }

// partCost is the length of the compact JSON of a part.
func partCost(p tool.Part) int {
	if isArtifact(p) {
		return len(appendPart(nil, p))
	}
	return textOverhead + stringCost(p.Text)
}

// contentCost is the length of the compact JSON of content.
func contentCost(parts []tool.Part) int {
	n := len("[]") + max(len(parts)-1, 0)
	for _, p := range parts {
		n += partCost(p)
	}
	return n
}

func appendPart(b []byte, p tool.Part) []byte {
	if isArtifact(p) {
		b = append(b, `{"type":"artifact",`...)
		return append(appendRefMembers(b, *p.ArtifactRef), '}')
	}
	b = append(b, strings.TrimSuffix(emptyText, `""}`)...)
	return append(appendString(b, p.Text), '}')
}

func appendRefMembers(b []byte, ref tool.ArtifactRef) []byte {
	b = appendString(append(b, `"artifact_id":`...), ref.ID.String())
	b = appendString(append(b, `,"media_type":`...), ref.MediaType)
	b = strconv.AppendInt(append(b, `,"bytes":`...), ref.Bytes, 10)
	return appendString(append(b, `,"sha256":`...), ref.SHA256)
}

// appendRef appends an artifact reference, or null.
func appendRef(b []byte, ref *tool.ArtifactRef) []byte {
	if ref == nil {
		return append(b, "null"...)
	}
	return append(appendRefMembers(append(b, '{'), *ref), '}')
}

func appendContent(b []byte, parts []tool.Part) []byte {
	b = append(b, '[')
	for i, p := range parts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendPart(b, p)
	}
	return append(b, ']')
}

// appendStructured appends structured data in its normal form, null for none or
// for what has no normal form.
func appendStructured(b []byte, raw json.RawMessage) []byte {
	normal, err := normalize(raw, nil)
	if err != nil || normal == nil {
		return append(b, "null"...)
	}
	return append(b, normal...)
}

func appendObject(b []byte, o *Object) []byte {
	if o == nil {
		return append(b, "null"...)
	}
	b = appendString(append(b, `{"status":`...), string(o.Status))
	b = appendString(append(b, `,"action":`...), o.Action)
	b = appendString(append(b, `,"reason_code":`...), o.ReasonCode)
	b = appendString(append(b, `,"message":`...), o.Message)
	b = strconv.AppendBool(append(b, `,"retryable":`...), o.Retryable)
	b = appendString(append(b, `,"remediation":`...), string(o.Remediation))
	return append(b, '}')
}

func appendItem(b []byte, it Item) []byte {
	b = appendString(append(b, `{"trust":`...), string(it.Trust))
	b = appendContent(append(b, `,"content":`...), it.Content)
	b = appendStructured(append(b, `,"structured":`...), it.Structured)
	b = appendObject(append(b, `,"outcome":`...), it.Outcome)
	return append(b, '}')
}
