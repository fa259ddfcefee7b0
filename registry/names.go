package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// The sizes of names, in bytes; every name is ASCII (contract section 1).
const (
	// MaximumNameBytes bounds a registry name.
	MaximumNameBytes = 96
	// MaximumServerIDBytes bounds the id of an MCP server.
	MaximumServerIDBytes = 32
	// MaximumAliasBytes bounds a provider alias.
	MaximumAliasBytes = 64
)

const (
	maximumRemoteBytes = 48 // a normalized remote name
	cutRemoteBytes     = 40 // what is kept of a longer one
	remoteDigestHex    = 7

	aliasDigestHex = 24
	aliasMark      = "-H"
	aliasHeadBytes = MaximumAliasBytes - len(aliasMark) - aliasDigestHex
)

// ReadResource is the last segment of the one tool that every MCP server with
// resources gets without having listed it.
const ReadResource = "read_resource"

// ValidName reports whether name is a registry name: at least two segments of
// lowercase letters, digits and underscores that each begin with a letter,
// joined by dots, [MaximumNameBytes] at most.
func ValidName(name string) bool {
	if len(name) > MaximumNameBytes {
		return false
	}
	segments := 0
	for segment := range strings.SplitSeq(name, ".") {
		if !validSegment(segment) {
			return false
		}
		segments++
	}
	return segments > 1
}

// ValidServerID reports whether id may name an MCP server.
func ValidServerID(id string) bool {
	return len(id) <= MaximumServerIDBytes && validSegment(id)
}

// Domain gives the first segment of a registry name.
func Domain(name string) string {
	domain, _, _ := strings.Cut(name, ".")
	return domain
}

func validSegment(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z'
		if i == 0 && !letter {
			return false
		}
		if !letter && c != '_' && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// NormalizeRemoteName turns the name a server reported into a segment of a
// registry name, by the five steps of the specification ("Names"). It is a pure
// function of remote alone, so that the name of a tool depends neither on the
// order of discovery nor on the rest of the catalog. The result is never empty,
// at most 48 bytes long, and a valid segment whatever remote holds, invalid
// UTF-8 included.
func NormalizeRemoteName(remote string) string {
	// The full Unicode mapping and not the rune by rune one of package strings:
	// they differ for a capital I with a dot.
	lower := cases.Lower(language.Und).String(norm.NFC.String(remote))
	var b strings.Builder
	for _, r := range lower {
		if r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			r = '_'
		}
		if r == '_' && (b.Len() == 0 || strings.HasSuffix(b.String(), "_")) {
			continue
		}
		b.WriteRune(r)
	}
	name := strings.TrimSuffix(b.String(), "_")
	if name == "" || name[0] <= '9' {
		name = "t_" + name
	}
	if len(name) > maximumRemoteBytes {
		sum := sha256.Sum256([]byte(remote))
		name = name[:cutRemoteBytes] + "_" + hex.EncodeToString(sum[:])[:remoteDigestHex]
	}
	return name
}

// MCPName gives the registry name of a tool that the server with the given id
// reported as remote: mcp.{server_id}.{normalized_remote_name}. With a valid
// server id the result is a valid registry name.
func MCPName(serverID, remote string) string {
	return "mcp." + serverID + "." + NormalizeRemoteName(remote)
}

// Alias gives the spelling of a registry name that the large model providers
// accept, ^[a-zA-Z0-9_-]{1,64}$ (contract section 1): workspace.write_text is
// workspace-write_text.
//
// It is a pure function of the name, so no other tool can change it, and no two
// valid registry names share an alias:
//
//   - Names of at most 64 bytes have each dot replaced by a hyphen. Registry
//     names hold no hyphen, so putting the dots back recovers the name.
//   - Longer names keep their first 38 bytes, spelled the same way, followed by
//     -H and 24 hex digits of the sha256 of the whole name. Registry names hold
//     no capital letter, so such an alias is never that of a short name; two
//     long names share one only where 96 bits of sha256 agree and their first 38
//     bytes do, which always hold the domain and the whole id of an MCP server:
//     a server could at the very worst confuse its own tools. [NewPin] refuses a
//     set with two equal aliases all the same.
//
// An alias is never a registry name, for want of a dot.
func Alias(name string) string {
	flat := strings.ReplaceAll(name, ".", "-")
	if len(flat) <= MaximumAliasBytes {
		return flat
	}
	sum := sha256.Sum256([]byte(name))
	return flat[:aliasHeadBytes] + aliasMark + hex.EncodeToString(sum[:])[:aliasDigestHex]
}

// ValidPattern reports whether p may stand in a list of tool patterns: "*" for
// every tool, a registry name for one, or a domain or longer prefix of whole
// segments followed by ".*", such as workspace.* or mcp.acme.*.
func ValidPattern(p string) bool {
	if p == "*" || ValidName(p) {
		return true
	}
	prefix, ok := strings.CutSuffix(p, ".*")
	return ok && (validSegment(prefix) || ValidName(prefix))
}

// MatchPattern reports whether pattern p covers the tool of that name. A pattern
// that is not valid covers nothing.
func MatchPattern(p, name string) bool {
	if !ValidPattern(p) {
		return false
	}
	if p == "*" || p == name {
		return true
	}
	prefix, wild := strings.CutSuffix(p, "*") // keeps the dot
	return wild && strings.HasPrefix(name, prefix)
}

func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if MatchPattern(p, name) {
			return true
		}
	}
	return false
}
