package known

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is the kind of fact that an Entry reports.
type Kind byte

// The kinds. Package standing defines the data of the last two.
const (
	OfClient  Kind = iota + 1 // the client isn't a stranger; Data is the rest of the client's hash
	OfVisitor                 // a visitor's standing
	OfCookie                  // a cookie that the site set, and the session that received it
)

// Entry is one fact about a client, to be sent to other instances. The hash is keyed with the fleet's secret,
// so it is the same on all instances.
type Entry struct {
	Kind Kind
	Hash uint64
	Data [12]byte
	At   int64 // when the instance observed the fact, in Unix seconds; others receive the time rounded to the minute
}

const (
	// Counts is how long an entry stays valid after the instance observed the fact. Sending an old entry again
	// therefore has no effect.
	Counts = 15 * time.Minute
	// Renew is how often one of the instances sends an entry again while it is still true.
	Renew = 5 * time.Minute
	// PackEvery is how often Pack must be called. A new entry is sent after at most this time.
	PackEvery = 250 * time.Millisecond

	ringSize   = 1 << 13 // how many of its latest entries an instance keeps
	saidBits   = 15      // log₂ of the number of sent or received entries that are remembered, to avoid repetition
	mostAtOnce = 4       // the most packets that Pack returns at once; Pack runs four times a second, and they hold a few hundred entries
	repeats    = 16      // how many older entries are added to a packet that has room, in case they were lost
	beat       = 15 * time.Second
	askFor     = 5 * time.Second // how long an instance asks for the others' entries
	askEvery   = time.Second
	tellAgain  = 10 * time.Second // how often an instance answers by sending its entries again
	// mostOpened limits how many packets are decrypted per second. It bounds the cost of packets that an
	// attacker replays.
	mostOpened  = 2000
	seenPackets = 1 << 13
)

// Exchange sends other instances the clients that this one knows, and receives those that the others know. It
// makes and reads packets. A limiter.Sharer sends the packets to all other instances. The Sharer may lose
// packets, deliver them twice, or deliver them late, but it can neither read nor forge them. Without keys, an
// Exchange does nothing.
//
// A packet consists of a version, the fingerprint of its key, a nonce, and a part that is sealed with
// AES-256-GCM. The sealed part contains the time, the sender, a flag that asks the others for their entries,
// and either entries of 22 bytes or a text that introduces the sender. All tables have a fixed size. Callers
// pass in the time. The methods may be called concurrently.
type Exchange struct {
	keys atomic.Pointer[keys]
	said [1 << saidBits]atomic.Uint64
	to   []func(now time.Time, e Entry)
	met  func(now time.Time, from uint32, text []byte) // called with other instances' introductions; nil: introductions are ignored

	mu          sync.Mutex // guards the fields below
	from        uint32     // a random number that identifies this instance
	ring        []Entry
	told        int // how many entries have ever been put into the ring
	sent        int // how many of these have been put into a packet
	again       int // entries below this index are sent again, in descending order
	lastPacket  time.Time
	lastAnswer  time.Time
	askingUntil time.Time
	second      int64
	opened      int                 // packets decrypted in that second
	seen        [seenPackets]uint64 // the first bytes of the nonces of recently decrypted packets
	state       ExchangeState
}

// ExchangeState is the state of an Exchange, as shown by the doctor.
type ExchangeState struct {
	Secret  string `json:"secret"`  // fingerprint of the secret that seals packets
	Told    uint64 `json:"told"`    // entries sent
	Learnt  uint64 `json:"learnt"`  // entries received
	Dropped uint64 `json:"dropped"` // entries and packets that exceeded a limit
	Stale   uint64 `json:"stale"`   // packets that are too old, or too far in the future
	Forged  uint64 `json:"forged"`  // malformed packets, and packets with a known fingerprint that weren't sealed with its secret
	Foreign uint64 `json:"foreign"` // packets sealed with a different secret
	// Other is the fingerprint of the other secret. OtherAt is when its last packet arrived.
	Other   string    `json:"other,omitempty"`
	OtherAt time.Time `json:"otherAt,omitzero"`
}

// keys are two keys: the first one seals packets, and both open them.
type keys [2]key

type key struct {
	print [printSize]byte
	aead  cipher.AEAD
}

const (
	packetVersion = 1
	printSize     = 4
	nonceSize     = 12
	sealedAt      = 1 + printSize + nonceSize
	headerSize    = 4 + 4 + 1 // seconds, from, flags
	entrySize     = 1 + 1 + 8 + 12
	mostEntries   = 48
	asks          = 1 // flag
	introduces    = 2 // flag: the packet contains a text instead of entries
	// MostText is the longest text of an introduction, in bytes.
	MostText = mostEntries * entrySize
	// MostPacket is the longest packet, in bytes. It fits into a datagram.
	MostPacket = sealedAt + headerSize + mostEntries*entrySize + 16
)

// NewExchange makes an Exchange without keys.
func NewExchange() *Exchange {
	x := &Exchange{}
	var drawn [4]byte
	_, _ = rand.Read(drawn[:]) // never fails
	x.from = binary.LittleEndian.Uint32(drawn[:])
	return x
}

// Receive registers f for entries of other instances. Call it before the first call of Learn.
func (x *Exchange) Receive(f func(now time.Time, e Entry)) { x.to = append(x.to, f) }

// Meet registers f for the texts that introduce other instances. Call it before the first call of Learn. f
// must not keep the text.
func (x *Exchange) Meet(f func(now time.Time, from uint32, text []byte)) { x.met = f }

// Introduce returns a packet with a text that the others pass to the function registered with Meet. It returns
// nil if there are no keys or the text is too long.
func (x *Exchange) Introduce(now time.Time, text []byte) []byte {
	k := x.keys.Load()
	if k == nil || len(text) > MostText {
		return nil
	}
	return k[0].seal(now, x.from, introduces, text)
}

// SetKeys sets the keys: the first one seals packets from now on, and both open them.
func (x *Exchange) SetKeys(signing, other [32]byte) {
	x.keys.Store(&keys{newKey(signing), newKey(other)})
}

func newKey(k [32]byte) key {
	block, _ := aes.NewCipher(k[:]) // fails only for other lengths
	aead, _ := cipher.NewGCM(block) // fails only for other block sizes
	return key{Fingerprint(k), aead}
}

// Fingerprint returns bytes that distinguish keys and reveal nothing about them.
func Fingerprint(k [32]byte) [printSize]byte {
	sum := sha256.Sum256(append([]byte("tempomat fingerprint "), k[:]...))
	return [printSize]byte(sum[:])
}

// Tell queues an entry for the others, unless it was sent or received recently.
func (x *Exchange) Tell(e Entry) {
	if x.keys.Load() == nil || !x.isNews(&e) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ring == nil {
		x.ring = make([]Entry, ringSize)
	}
	x.ring[x.told%ringSize] = e
	x.told++
}

// isNews reports whether an entry was neither sent nor received recently, and records the entry as sent.
func (x *Exchange) isNews(e *Entry) bool {
	const (
		minutes = 1<<16 - 1 // the minute is stored modulo 65536
		late    = 60        // an entry that arrives up to this many minutes late isn't news
	)
	h := (e.Hash ^ uint64(e.Kind)<<56 ^ binary.LittleEndian.Uint64(e.Data[:])*0x2545f4914f6cdd1d ^
		uint64(binary.LittleEndian.Uint32(e.Data[8:]))*0xff51afd7ed558ccd) * 0xc4ceb9fe1a85ec53
	minute := uint64(e.At/60) & minutes //nolint:gosec // only 16 bits are kept
	place := &x.said[h>>(64-saidBits)]
	said := place.Load()
	mark, since := h&^minutes, (minute-said)&minutes
	if said&^minutes == mark && (since < uint64(Renew/time.Minute) || since > minutes-late) {
		return false
	}
	return place.CompareAndSwap(said, mark|minute)
}

// Ask makes the next packets ask other instances for their entries. Call it at the start, or when others are
// found.
func (x *Exchange) Ask(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.askingUntil = now.Add(askFor)
}

// Pack returns the packets to send to the others now. Call it every PackEvery. If there are too many entries,
// it packs only the latest ones.
func (x *Exchange) Pack(now time.Time) (packets [][]byte) {
	k := x.keys.Load()
	if k == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	asking, flags := now.Before(x.askingUntil), byte(0)
	if asking {
		flags = asks
	}
	quiet := now.Sub(x.lastPacket)
	if x.sent == x.told && x.again == 0 && quiet < beat && !(asking && quiet >= askEvery) {
		return nil
	}
	for entries := x.nextLocked(now); ; {
		n := min(len(entries), mostEntries)
		packets = append(packets, k[0].seal(now, x.from, flags, written(now, entries[:n])))
		if entries = entries[n:]; len(entries) == 0 {
			break
		}
	}
	x.lastPacket = now
	return packets
}

// nextLocked returns the entries to send next: new ones first, then earlier ones. If another instance asks, it
// returns many earlier ones; otherwise it returns a few, in case some were lost.
func (x *Exchange) nextLocked(now time.Time) (entries []Entry) {
	const most = mostAtOnce * mostEntries
	before := max(x.sent, x.told-most)
	x.state.Dropped += uint64(before - x.sent) //nolint:gosec // not below 0
	for i := x.told; i > before; i-- {
		entries = append(entries, x.ring[(i-1)%ringSize])
	}
	x.sent = x.told
	x.state.Told += uint64(len(entries))
	from, room := before, max(0, min(repeats, mostEntries-len(entries)))
	if x.again > 0 {
		from, room = min(before, x.again), most-len(entries)
	}
	oldest := max(0, x.told-ringSize)
	for ; from > oldest && room > 0; from, room = from-1, room-1 {
		e := x.ring[(from-1)%ringSize]
		if now.Unix()-e.At >= int64(Counts/time.Second) {
			oldest = from
			break
		}
		entries = append(entries, e)
	}
	if x.again > 0 {
		if x.again = from; from <= oldest {
			x.again = 0
		}
	}
	return entries
}

// written returns the entries in the format of a packet.
func written(now time.Time, entries []Entry) (b []byte) {
	b = make([]byte, 0, mostEntries*entrySize)
	for _, e := range entries {
		b = append(b, byte(e.Kind), byte(max(0, min((now.Unix()-e.At)/60, 255))))
		b = append(binary.LittleEndian.AppendUint64(b, e.Hash), e.Data[:]...)
	}
	return b
}

// seal makes a sealed packet.
func (k *key) seal(now time.Time, from uint32, flags byte, body []byte) []byte {
	b := make([]byte, sealedAt, MostPacket)
	b[0] = packetVersion
	copy(b[1:], k.print[:])
	_, _ = rand.Read(b[1+printSize : sealedAt]) // never fails
	plain := make([]byte, 0, headerSize+mostEntries*entrySize)
	plain = binary.LittleEndian.AppendUint32(plain, uint32(now.Unix())) //nolint:gosec // until 2106
	plain = binary.LittleEndian.AppendUint32(plain, from)
	plain = append(append(plain, flags), body...)
	return k.aead.Seal(b, b[1+printSize:sealedAt], plain, b[:1+printSize])
}

// Learn handles a received packet, which anyone may have sent.
func (x *Exchange) Learn(now time.Time, packet []byte) {
	k := x.keys.Load()
	if k == nil {
		return
	}
	made, plain := x.open(now, k, packet)
	if plain == nil {
		return
	}
	entries := plain[headerSize:]
	if plain[headerSize-1]&introduces != 0 {
		if x.met != nil {
			x.met(now, binary.LittleEndian.Uint32(plain[4:]), entries)
		}
		return
	}
	for ; len(entries) > 0; entries = entries[entrySize:] {
		e := Entry{Kind: Kind(entries[0]), Hash: binary.LittleEndian.Uint64(entries[2:]), At: made - 60*int64(entries[1])}
		copy(e.Data[:], entries[10:])
		if now.Unix()-e.At < int64(Counts/time.Second) {
			x.isNews(&e) // records the entry, so this instance doesn't send it again
			for _, f := range x.to {
				f(now, e)
			}
		}
	}
}

// open decrypts a packet. It returns the time when the packet was made, and the packet's contents. The contents
// are nil unless another instance recently sealed the packet with one of the keys.
func (x *Exchange) open(now time.Time, k *keys, packet []byte) (made int64, plain []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(packet) < sealedAt+headerSize+16 || len(packet) > MostPacket || packet[0] != packetVersion {
		x.state.Forged++
		return 0, nil
	}
	if now.Unix() != x.second {
		x.second, x.opened = now.Unix(), 0
	}
	nonce := binary.LittleEndian.Uint64(packet[1+printSize:])
	seen := &x.seen[nonce%seenPackets]
	if *seen == nonce { // a replayed packet; decrypting it would leave less room for other packets
		return 0, nil
	}
	if x.opened >= mostOpened {
		x.state.Dropped++
		return 0, nil
	}
	known := false
	for i := range k {
		if [printSize]byte(packet[1:]) != k[i].print {
			continue
		}
		known = true
		plain, err := k[i].aead.Open(nil, packet[1+printSize:sealedAt], packet[sealedAt:], packet[:1+printSize])
		if err == nil && len(plain) >= headerSize && ((len(plain)-headerSize)%entrySize == 0 || plain[headerSize-1]&introduces != 0) {
			*seen = nonce
			return x.openedLocked(now, plain)
		}
	}
	if known {
		x.state.Forged++
		return 0, nil
	}
	x.state.Foreign++
	x.state.Other, x.state.OtherAt = hex.EncodeToString(packet[1:1+printSize]), now
	return 0, nil
}

// openedLocked reads the header of a decrypted packet. It returns the packet's time and its contents, or nil
// contents if the packet must be ignored.
func (x *Exchange) openedLocked(now time.Time, plain []byte) (int64, []byte) {
	x.opened++
	made := int64(binary.LittleEndian.Uint32(plain))
	age := now.Unix() - made
	if age >= int64(Counts/time.Second) || -age >= int64(Counts/time.Second) {
		x.state.Stale++
		return 0, nil
	}
	if binary.LittleEndian.Uint32(plain[4:]) == x.from {
		return 0, nil
	}
	if plain[headerSize-1]&asks != 0 && age < int64(askFor/time.Second) && now.Sub(x.lastAnswer) >= tellAgain {
		x.lastAnswer, x.again = now, x.told
	}
	if plain[headerSize-1]&introduces == 0 {
		x.state.Learnt += uint64(len(plain)-headerSize) / entrySize //nolint:gosec // not below 0
	}
	return min(made, now.Unix()), plain
}

// State returns a snapshot of the Exchange's state.
func (x *Exchange) State() ExchangeState {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.state
	if k := x.keys.Load(); k != nil {
		s.Secret = hex.EncodeToString(k[0].print[:])
	}
	return s
}
