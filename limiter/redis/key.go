package redis

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// names makes the names of Redis keys. Nothing that a client sent, nor its
// address, can be read in them; with a salt, it cannot be tried out either.
//
// A name is the prefix, one letter for what it is, and a hash in braces: a
// cluster then keeps all that belongs to it in one slot.
type names struct{ prefix, salt string }

// The letters.
const (
	bucketName = "b"
	creditName = "c"
)

// of names something by all its parts. Each part is hashed with its length, so
// that no two lists of parts share a name for how they join.
func (n names) of(kind string, parts ...string) string {
	buffer := make([]byte, 0, 256)
	for _, part := range append([]string{n.salt, kind}, parts...) {
		buffer = binary.AppendUvarint(buffer, uint64(len(part)))
		buffer = append(buffer, part...)
	}
	sum := sha256.Sum256(buffer)
	return n.prefix + kind + "{" + base64.RawURLEncoding.EncodeToString(sum[:16]) + "}"
}
