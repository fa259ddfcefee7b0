package app

import (
	"crypto/rand"
	"crypto/sha256"

	"github.com/toolbus/toolbus/tool"
)

// stableID derives an id from names, so that every process and every start
// means the same row.
func stableID(names ...string) tool.ID {
	h := sha256.New()
	for _, n := range names {
		h.Write([]byte(n))
		h.Write([]byte{0})
	}
	var id tool.ID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80 // version 8: by our own rule
	id[8] = id[8]&0x3f | 0x80
	return id
}

// drawSecret draws 128 random bits as text.
func drawSecret() string { return rand.Text() }
