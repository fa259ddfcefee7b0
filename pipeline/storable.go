package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maximumDetail = 16 << 10
	maximumKey    = 128
)

// storable bounds operator text and makes it valid for jsonb.
func storable(s string) string {
	if len(s) > maximumDetail {
		s = s[:maximumDetail]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}

// storableKey gives a short text that stands for s: s itself where it is one,
// otherwise its digest. Different texts stay different.
func storableKey(s string) string {
	if len(s) <= maximumKey && storable(s) == s {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
