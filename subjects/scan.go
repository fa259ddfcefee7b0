package subjects

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The functions of this file walk JSON that json.Valid has accepted. On
// anything else they may give nonsense, but they end, and within the bytes:
// what is read of a broken payload for its refusal depends on that.

// members calls f for every member of the object raw, in order, with the
// unquoted name and the value without space around it.
func members(raw []byte, path string, f func(name string, value []byte) error) error {
	if len(raw) == 0 || raw[0] != '{' {
		return &FieldError{path, "must be an object"}
	}
	for i := skipSpace(raw, 1); i < len(raw) && raw[i] != '}'; {
		end := skipValue(raw, i)
		name, ok := unquote(raw[i:end])
		if !ok {
			return &FieldError{path, "has a member whose name holds NUL or a lone surrogate"}
		}
		start := min(len(raw), skipSpace(raw, skipSpace(raw, end)+1)) // over the colon
		end = skipValue(raw, start)
		if err := f(name, raw[start:end]); err != nil {
			return err
		}
		i = skipComma(raw, end)
	}
	return nil
}

// elements calls f for every element of the array raw.
func elements(raw []byte, path string, f func(i int, value []byte) error) error {
	if len(raw) == 0 || raw[0] != '[' {
		return &FieldError{path, "must be an array"}
	}
	for i, n := skipSpace(raw, 1), 0; i < len(raw) && raw[i] != ']'; n++ {
		end := skipValue(raw, i)
		if end == i {
			return &FieldError{path, "must be valid JSON"}
		}
		if err := f(n, raw[i:end]); err != nil {
			return err
		}
		i = skipComma(raw, end)
	}
	return nil
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

func skipComma(raw []byte, i int) int {
	i = skipSpace(raw, i)
	if i < len(raw) && raw[i] == ',' {
		i = skipSpace(raw, i+1)
	}
	return i
}

// skipValue gives the index after the value that begins at i.
func skipValue(raw []byte, i int) int {
	depth := 0
	for ; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = skipString(raw, i) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			if depth > 0 {
				continue
			}
			for i < len(raw) && !strings.ContainsRune(",]}: \n\t\r", rune(raw[i])) {
				i++
			}
			return i
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(raw)
}

// skipString gives the index after the string that begins at i.
func skipString(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// unquote gives the text of a JSON string. It refuses what PostgreSQL cannot
// store and what has no spelling in UTF-8: NUL and lone surrogates.
func unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	var s string
	if !wholeSurrogates(inner) || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, strings.IndexByte(s, 0) < 0
}

// wholeSurrogates reports whether every escaped surrogate has its other half
// behind it; encoding/json would replace a lone one in silence.
func wholeSurrogates(inner []byte) bool {
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			continue
		}
		i++
		r := escapedRune(inner[i:])
		if r < 0 {
			continue
		}
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		if i+2 >= len(inner) || inner[i+1] != '\\' {
			return false
		}
		if utf16.DecodeRune(r, escapedRune(inner[i+2:])) == utf8.RuneError {
			return false
		}
		i += 6
	}
	return true
}

// escapedRune reads the uXXXX of an escape, -1 when it is another escape.
func escapedRune(b []byte) rune {
	if len(b) < 5 || b[0] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[1:5]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
