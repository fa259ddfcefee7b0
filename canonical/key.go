package canonical

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/toolbus/toolbus/tool"
)

// keyTag opens what an idempotency key is taken over. Another derivation would
// get another tag, so that its keys never meet those of history.
const keyTag = "veetbot.tool.v1"

// Hash gives the SHA-256 of canonical bytes in lowercase hex: the normalized
// arguments hash of an invocation.
func Hash(form []byte) string {
	sum := sha256.Sum256(form)
	return hex.EncodeToString(sum[:])
}

// KeyInput is what makes a call the same call. No field may hold a NUL; the
// grammars of the contract leave no room for one.
type KeyInput struct {
	RunID tool.ID
	Step  int
	// CallID is the caller's id of the call, unique in its step.
	CallID string
	// ToolName is the registry name, never an alias; for a call through
	// tool.call, the named tool.
	ToolName    string
	ToolVersion string
	// ArgumentsHash is [Hash] of the canonical arguments.
	ArgumentsHash string
}

// Key derives the idempotency key (specification, "The key"): the SHA-256, in
// lowercase hex, of the tag and the six fields with a single NUL between them.
func Key(in KeyInput) string {
	var buffer [512]byte
	b := append(buffer[:0], keyTag...)
	b = append(append(b, 0), in.RunID.String()...)
	b = strconv.AppendInt(append(b, 0), int64(in.Step), 10)
	for _, text := range [...]string{in.CallID, in.ToolName, in.ToolVersion, in.ArgumentsHash} {
		b = append(append(b, 0), text...)
	}
	return Hash(b)
}
