package tool

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"sync"
	"time"
)

// ID is a UUID. Ids made by [NewID] are version 7 and strictly increasing
// within a process, so that the ids of one batch sort in the order in which
// they were drawn. The zero ID means "none".
type ID [16]byte

// ErrBadID says that a string is no lower-case UUID with hyphens.
var ErrBadID = errors.New("not a lower-case UUID with hyphens")

var idClock struct {
	sync.Mutex
	last uint64 // milliseconds << 12 | counter
}

// NewID draws the next version 7 UUID. Safe for concurrent use.
func NewID() ID {
	var id ID
	_, _ = rand.Read(id[:]) // crypto/rand never fails: it aborts the process instead
	idClock.Lock()
	next := uint64(time.Now().UnixMilli()) << 12
	if next <= idClock.last {
		next = idClock.last + 1
	}
	idClock.last = next
	idClock.Unlock()
	ms, seq := next>>12, next&0xfff
	var stamp [8]byte
	binary.BigEndian.PutUint64(stamp[:], ms<<16|0x7000|seq) // 48 bits of time, the version, 12 bits of sequence
	copy(id[:8], stamp[:])
	id[8] = id[8]&0x3f | 0x80
	return id
}

// ParseID reads the lower-case form with hyphens, the only one the wire allows.
// It returns [ErrBadID] for anything else.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, ErrBadID
	}
	for i := range len(s) {
		if c := s[i]; c >= 'A' && c <= 'F' {
			return ID{}, ErrBadID
		}
	}
	var flat [32]byte
	n := 0
	for i := range len(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			continue
		}
		flat[n] = s[i]
		n++
	}
	if _, err := hex.Decode(id[:], flat[:]); err != nil {
		return ID{}, ErrBadID
	}
	return id, nil
}

// String gives the lower-case form with hyphens.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], id[10:16])
	return string(b[:])
}

// IsZero reports whether id is "none".
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText writes the lower-case form with hyphens.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what [ParseID] reads.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
