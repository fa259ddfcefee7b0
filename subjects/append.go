package subjects

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/toolbus/toolbus/tool"
)

// appendUUID appends the lower-case form with hyphens.
func appendUUID(b []byte, id tool.ID) []byte {
	b = append(hex.AppendEncode(b, id[0:4]), '-')
	b = append(hex.AppendEncode(b, id[4:6]), '-')
	b = append(hex.AppendEncode(b, id[6:8]), '-')
	b = append(hex.AppendEncode(b, id[8:10]), '-')
	return hex.AppendEncode(b, id[10:16])
}

func appendID(b []byte, id tool.ID) []byte {
	return append(appendUUID(append(b, '"'), id), '"')
}

// appendString appends s as JSON. Texts of the closed grammars take the short
// way; anything else is left to encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) //nolint:errchkjson // a string always encodes
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendNullable(b []byte, s *string) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	return appendString(b, *s)
}

func appendInt(b []byte, n *int64) []byte {
	if n == nil {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, *n, 10)
}
