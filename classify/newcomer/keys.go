package newcomer

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	keySize = 32
	// keyAge is how long a key signs. It is longer than a pass is valid, so that
	// the key before the present one verifies all that may still count.
	keyAge = time.Hour
)

// keys sign passes: the present one does, the one before it only verifies. They
// are never changed, only replaced.
type keys struct {
	now, old [keySize]byte
	since    int64 // Unix seconds when now began to sign
}

// keyRing replaces its keys in time. Its methods may be called concurrently.
type keyRing struct {
	rotating sync.Mutex // one rotation at a time
	keys     atomic.Pointer[keys]
}

// newKeys are random.
func newKeys(now time.Time) *keys {
	ks := &keys{since: now.Unix()}
	rand.Read(ks.now[:]) // it never fails
	rand.Read(ks.old[:])
	return ks
}

// signing returns the keys to sign with. A clock that was set back by hours
// counts as one that went on, lest the key in use stay for as long.
func (k *keyRing) signing(now time.Time) *keys {
	if ks := k.keys.Load(); !ks.aged(now) {
		return ks
	}
	k.rotating.Lock()
	defer k.rotating.Unlock()
	ks := k.keys.Load()
	if !ks.aged(now) {
		return ks // somebody else was faster
	}
	next := newKeys(now)
	next.old = ks.now
	k.keys.Store(next)
	return next
}

func (ks *keys) aged(now time.Time) bool {
	age := now.Unix() - ks.since
	return age >= int64(keyAge/time.Second) || age <= -int64(keyAge/time.Second)
}

// The form of what survives a restart: a version, since as little-endian, both
// keys, and a checksum.
const (
	keysVersion = 1
	keysHead    = 1 + 8
	keysSize    = keysHead + 2*keySize + sha256.Size
)

var errKeys = errors.New("not the keys that a proxy of this version signs with")

func (k *keyRing) appendBinary(b []byte) []byte {
	ks, from := k.keys.Load(), len(b)
	b = append(b, keysVersion)
	b = binary.LittleEndian.AppendUint64(b, uint64(ks.since)) //nolint:gosec // read back as it is
	b = append(append(b, ks.now[:]...), ks.old[:]...)
	sum := sha256.Sum256(b[from:])
	return append(b, sum[:]...)
}

// unmarshalBinary changes nothing if the data are damaged: keys with a known
// byte in place of a random one would be weaker ones.
func (k *keyRing) unmarshalBinary(data []byte) error {
	if len(data) != keysSize || data[0] != keysVersion {
		return errKeys
	}
	body, sum := data[:keysSize-sha256.Size], data[keysSize-sha256.Size:]
	if sha256.Sum256(body) != [sha256.Size]byte(sum) {
		return errKeys
	}
	ks := &keys{since: int64(binary.LittleEndian.Uint64(data[1:]))} //nolint:gosec // as it was written
	copy(ks.now[:], body[keysHead:])
	copy(ks.old[:], body[keysHead+keySize:])
	k.keys.Store(ks)
	return nil
}
