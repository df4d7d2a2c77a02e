// Package known remembers which clients of a site are no strangers, in little memory that does
// not grow, whoever comes. An [Exchange] tells other instances, and learns from them.
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

// Clients remembers which clients are no strangers, for 12 to 24 hours after they
// were last seen as they came back, and over a restart. It holds keyed hashes
// only. Its methods may be called concurrently.
//
// It is two Bloom filters (Bloom, Communications of the ACM 1970), a generation
// each. Who is found in the older one is entered into the newer one. A filter
// that is a third full takes a stranger for known at a rate of (1/3)^4, and is
// replaced before its time, so that the two of them never do at more than 2.5 %.
// It holds 425,000 clients by then, each of which must have been served for half
// a minute to get in here: a flood of them makes it forget sooner, no more.
type Clients struct {
	epoch    time.Time
	exchange *Exchange // nil: nobody is told
	learnt   atomic.Uint32

	mu       sync.Mutex // guards the following
	secret   [16]byte
	former   [16]byte // the one before the fleet's
	now, old *bloom
	since    int64 // Unix seconds when now was begun
}

// Lasts is how long a client is known at least after it was last seen.
const Lasts = 12 * time.Hour

const generation = int64(Lasts / time.Second)

// New is empty. Instants are durations since the epoch; the secret keys the hashes.
func New(epoch time.Time, secret [16]byte) *Clients {
	return &Clients{epoch: epoch, secret: secret, now: new(bloom), old: new(bloom), since: epoch.Unix()}
}

// Share has other instances told who is known, and this one learn whom they know. All hashes
// are keyed with the secret then, which is theirs as well. It is called before the first request,
// and before UnmarshalBinary.
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

// Learn takes in a packet of another instance.
func (k *Clients) Learn(now time.Time, packet []byte) {
	if k.exchange != nil {
		k.exchange.Learn(now, packet)
	}
}

// Learnt changes when others have told of a client.
func (k *Clients) Learnt() uint32 { return k.learnt.Load() }

// Has reports whether a client was known recently.
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

// Add remembers a client, and has others told.
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

// hash gives the two numbers that all bits of a client follow from
// (Kirsch and Mitzenmacher, ESA 2006).
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

// bloom is a Bloom filter. Whoever has it guards it.
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

var errSaved = errors.New("not known clients as this version writes them")

// AppendBinary appends what is to survive a restart: a version, the secret, when
// the newer generation began, both generations, and a checksum.
func (k *Clients) AppendBinary(b []byte) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	from := len(b)
	b = append(append(b, version), k.secret[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(k.since)) //nolint:gosec // read back as it is
	for _, f := range []*bloom{k.now, k.old} {
		for _, w := range f.words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	sum := sha256.Sum256(b[from:])
	return append(b, sum[:]...), nil
}

// UnmarshalBinary restores what AppendBinary wrote, before the first request. If the
// data is damaged, from the future, or has more clients than can be real, it changes
// nothing. Clients that were saved under another secret than the fleet's stay known.
func (k *Clients) UnmarshalBinary(data []byte) error {
	if len(data) != savedSize || data[0] != version {
		return errSaved
	}
	body, sum := data[:savedSize-sha256.Size], data[savedSize-sha256.Size:]
	since := int64(binary.LittleEndian.Uint64(data[17:])) //nolint:gosec // as it was written
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
