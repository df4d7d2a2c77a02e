package redis

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"

	"tempomat/limiter"
)

// names makes the names of Redis keys. Nothing that a client sent, nor its
// address, can be read in them; with a salt, it cannot be tried out either.
//
// A name is the prefix, one letter for what it is, and a hash. What stands in
// braces decides in which slot of a cluster it is: what is used together is in one.
type names struct{ prefix, salt string }

// bucket names the bucket that an actor has for a limit.
func (n names) bucket(limit, actor string) string {
	return n.prefix + "b{" + encoded(n.hash("b", limit, actor)) + "}"
}

// account names the account of a key, and says which of so many shards it is in.
func (n names) account(k limiter.Key, shards int) (name string, shard int) {
	h := n.hash("a", k.Class, k.ID)
	shard = int(h[len(h)-1]) % shards
	return n.prefix + "a{" + strconv.Itoa(shard) + "}" + encoded(h), shard
}

// log names the log of a shard.
func (n names) log(shard int) string { return n.prefix + "l{" + strconv.Itoa(shard) + "}" }

// hash is of all parts. Each is hashed with its length, so that no two lists of
// parts are the same for how they join.
func (n names) hash(parts ...string) [sha256.Size]byte {
	buffer := make([]byte, 0, 256)
	buffer = append(binary.AppendUvarint(buffer, uint64(len(n.salt))), n.salt...)
	for _, part := range parts {
		buffer = append(binary.AppendUvarint(buffer, uint64(len(part))), part...)
	}
	return sha256.Sum256(buffer)
}

// encoded writes 128 bits of a hash.
func encoded(h [sha256.Size]byte) string { return base64.RawURLEncoding.EncodeToString(h[:16]) }
