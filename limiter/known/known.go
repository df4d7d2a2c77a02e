// Package known remembers which clients of a site are known, in memory that doesn't grow with their number. An
// [Exchange] shares known clients among instances.
package known

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Clients remembers known clients for 12 to 24 hours after their last visit. Its contents survive a restart if
// they are saved. It stores only keyed hashes. Its methods may be called concurrently.
//
// It consists of two Bloom filters (Bloom, Communications of the ACM 1970), one for each generation. A client
// that is found in the older filter is added to the newer one. A filter is replaced early once it is a third
// full, which takes 425,000 clients. It then mistakes a stranger for a known client with a probability of
// (1/3)^4, and both filters together do so with at most 2.5 %. Only clients that have been served for half a
// minute are added, so a flood of clients can do no more than shorten the time for which clients are
// remembered.
type Clients struct {
	epoch    time.Time
	exchange *Exchange // nil: nothing is shared
	learnt   atomic.Uint32

	mu       sync.Mutex // guards the fields below
	secret   [16]byte
	former   [16]byte // the secret before the fleet's secret was set
	now, old *bloom
	since    int64 // when the generation now began, in Unix seconds
}

// Lasts is the shortest time that a client stays known after its last visit.
const Lasts = 12 * time.Hour

const generation = int64(Lasts / time.Second)

// New makes an empty set of clients. Times are durations since the epoch. The secret keys the hashes.
func New(epoch time.Time, secret [16]byte) *Clients {
	return &Clients{epoch: epoch, secret: secret, now: new(bloom), old: new(bloom), since: epoch.Unix()}
}

// Share exchanges known clients with other instances through x. From then on, the hashes are keyed with secret,
// which all instances share. Call Share before the first request, and before UnmarshalBinary.
func (k *Clients) Share(x *Exchange, secret [16]byte) {
	k.exchange, k.secret = x, secret
	x.Receive(func(now time.Time, e Entry) {
		if e.Kind != OfClient {
			return
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.rotateLocked(now.Sub(k.epoch))
		k.now.add([2]uint64{e.Hash, binary.LittleEndian.Uint64(e.Data[:]) | 1})
		k.learnt.Add(1)
	})
}

// Learn handles a packet from another instance.
func (k *Clients) Learn(now time.Time, packet []byte) {
	if k.exchange != nil {
		k.exchange.Learn(now, packet)
	}
}

// Learnt returns a number that changes whenever another instance has reported a known client.
func (k *Clients) Learnt() uint32 { return k.learnt.Load() }

// Has reports whether a client is known. A lookup extends the time for which a known client is remembered.
func (k *Clients) Has(at time.Duration, id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rotateLocked(at)
	h := hash(k.secret, id)
	if k.now.has(h) {
		return true
	}
	if !k.old.has(h) && (k.former == [16]byte{} || !k.hasLocked(hash(k.former, id))) {
		return false
	}
	k.now.add(h)
	return true
}

func (k *Clients) hasLocked(h [2]uint64) bool { return k.now.has(h) || k.old.has(h) }

// Add adds a client, and reports it to the other instances.
func (k *Clients) Add(at time.Duration, id string) {
	h := k.add(at, id)
	if k.exchange != nil {
		e := Entry{Kind: OfClient, Hash: h[0], At: k.epoch.Add(at).Unix()}
		binary.LittleEndian.PutUint64(e.Data[:], h[1])
		k.exchange.Tell(e)
	}
}

func (k *Clients) add(at time.Duration, id string) (h [2]uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rotateLocked(at)
	h = hash(k.secret, id)
	k.now.add(h)
	return h
}

func (k *Clients) rotateLocked(at time.Duration) {
	now := k.epoch.Add(at).Unix()
	age := now - k.since
	if age < generation && k.now.set < bloomFull {
		return
	}
	k.old, k.now, k.since = k.now, new(bloom), now
	if age >= 2*generation {
		k.old = new(bloom)
	}
}

// hash returns the two numbers from which all bits of a client are derived (Kirsch and Mitzenmacher, ESA 2006).
func hash(secret [16]byte, id string) [2]uint64 {
	var buffer [128]byte
	sum := sha256.Sum256(append(append(buffer[:0], secret[:]...), id...))
	return [2]uint64{binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]) | 1}
}

const (
	bloomBits   = 1 << 22
	bloomHashes = 4
	bloomFull   = bloomBits / 3
)

// bloom is a Bloom filter. Its owner guards it.
type bloom struct {
	words [bloomBits / 64]uint64
	set   int // bits
}

func (b *bloom) has(h [2]uint64) bool {
	for i := range uint64(bloomHashes) {
		bit := (h[0] + i*h[1]) % bloomBits
		if b.words[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

func (b *bloom) add(h [2]uint64) {
	for i := range uint64(bloomHashes) {
		bit := (h[0] + i*h[1]) % bloomBits
		if mask := uint64(1) << (bit % 64); b.words[bit/64]&mask == 0 {
			b.words[bit/64] |= mask
			b.set++
		}
	}
}

const (
	version   = 1
	headSize  = 1 + 16 + 8
	savedSize = headSize + 2*bloomBits/8 + sha256.Size
)

var errSaved = errors.New("not a set of known clients saved by this version")

// AppendBinary appends the contents, to be restored after a restart: a version, the secret, the start of the
// newer generation, both generations, and a checksum.
func (k *Clients) AppendBinary(b []byte) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	from := len(b)
	b = append(append(b, version), k.secret[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(k.since)) //nolint:gosec // any value can be read back
	for _, f := range []*bloom{k.now, k.old} {
		for _, w := range f.words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	sum := sha256.Sum256(b[from:])
	return append(b, sum[:]...), nil
}

// UnmarshalBinary restores what AppendBinary wrote. Call it before the first request. If the data is damaged,
// has a time in the future, or contains more clients than possible, it returns an error and changes nothing.
// Clients that were saved before the fleet's secret was set stay known.
func (k *Clients) UnmarshalBinary(data []byte) error {
	if len(data) != savedSize || data[0] != version {
		return errSaved
	}
	body, sum := data[:savedSize-sha256.Size], data[savedSize-sha256.Size:]
	since := int64(binary.LittleEndian.Uint64(data[17:])) //nolint:gosec // the value that was written
	if sha256.Sum256(body) != [sha256.Size]byte(sum) || since < 0 || since > k.epoch.Unix()+generation {
		return errSaved
	}
	now, old := new(bloom), new(bloom)
	body = body[headSize:]
	for _, f := range []*bloom{now, old} {
		for i := range f.words {
			f.words[i] = binary.LittleEndian.Uint64(body[8*i:])
			f.set += bits.OnesCount64(f.words[i])
		}
		if f.set >= bloomFull+bloomHashes {
			return errSaved
		}
		body = body[bloomBits/8:]
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if secret := [16]byte(data[1:]); k.exchange == nil {
		k.secret = secret
	} else if secret != k.secret {
		k.former = secret
	}
	k.since, k.now, k.old = since, now, old
	return nil
}
