package pipeline

import "strings"

const maximumDetail = 16 << 10

// storable bounds operator text and makes it valid for jsonb.
func storable(s string) string {
	if len(s) > maximumDetail {
		s = s[:maximumDetail]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}
