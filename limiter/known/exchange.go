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

// Kind is what an Entry is about.
type Kind byte

// The kinds. What the data of the last two mean is package standing's.
const (
	OfClient  Kind = iota + 1 // it is no stranger; the data are the rest of its hash
	OfVisitor                 // how it stands
	OfCookie                  // the site gave it, and to which session
)

// Entry is what one instance tells the others of a client. The hash is keyed with a secret of
// the fleet, so that all of them have the same one.
type Entry struct {
	Kind Kind
	Hash uint64
	Data [12]byte
	At   int64 // when that was seen, Unix seconds; others learn the minute
}

const (
	// Counts is how long an entry counts after it was seen, wherever it comes from: sending an
	// old one again gains nothing.
	Counts = 15 * time.Minute
	// Renew is how often an entry is told that goes on being true, by all instances together.
	Renew = 5 * time.Minute
	// PackEvery is how often Pack is to be called: for so long at most what is new waits to be told.
	PackEvery = 250 * time.Millisecond

	ringSize   = 1 << 13 // own entries that are remembered, the latest
	saidBits   = 15      // of the number of entries that were told or heard, to tell none too often
	mostAtOnce = 4       // packets that Pack returns at most: some thousand entries a second
	repeats    = 16      // entries that were told before, in a packet with room: one may have been lost
	beat       = 15 * time.Second
	askFor     = 5 * time.Second // for so long an instance asks what the others know
	askEvery   = time.Second
	tellAgain  = 10 * time.Second // how often who asks is answered
	// mostOpened bounds what packets that are sent again and again cost, in a second.
	mostOpened  = 2000
	seenPackets = 1 << 13
)

// An Exchange tells other instances whom this one knows, and this one whom they know. It makes
// packets and reads them; who carries them to all others (a limiter.Sharer) may lose some,
// deliver them twice or late, and cannot read them or make one. Without keys it does nothing.
//
// A packet is a version, the fingerprint of its key, a nonce, and sealed with AES-256-GCM: when
// it was made, by whom, whether the maker asks what others know, and entries of 22 bytes, or a
// text by which the maker introduces itself. No table grows, however much is told or comes. It is told the time; its methods may be called
// concurrently.
type Exchange struct {
	keys atomic.Pointer[keys]
	said [1 << saidBits]atomic.Uint64
	to   []func(now time.Time, e Entry)
	met  func(now time.Time, from uint32, text []byte) // nil: nobody asks who the others are

	mu          sync.Mutex // guards the following
	from        uint32     // who this is, drawn at random
	ring        []Entry
	told        int // entries that were ever in the ring
	sent        int // of these, those that a packet has had
	again       int // down from here all are told again
	lastPacket  time.Time
	lastAnswer  time.Time
	askingUntil time.Time
	second      int64
	opened      int                 // in that second
	seen        [seenPackets]uint64 // of those that were opened lately, the nonces' beginnings
	state       ExchangeState
}

// ExchangeState is what the doctor shows of an Exchange.
type ExchangeState struct {
	Secret  string `json:"secret"`  // fingerprint of the secret that signs
	Told    uint64 `json:"told"`    // entries
	Learnt  uint64 `json:"learnt"`  // entries
	Dropped uint64 `json:"dropped"` // entries and packets that were too many
	Stale   uint64 `json:"stale"`   // packets that are too old, or of a clock that is wrong
	Forged  uint64 `json:"forged"`  // packets that were not made with the secret whose fingerprint they have
	Foreign uint64 `json:"foreign"` // packets of another secret
	// Other is the fingerprint of such a secret, and when it came last.
	Other   string    `json:"other,omitempty"`
	OtherAt time.Time `json:"otherAt,omitzero"`
}

// keys seal packets: the first one does, both open them.
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
	introduces    = 2 // flag: a text follows, and no entries
	// MostText is the longest text by which an instance introduces itself, in bytes.
	MostText = mostEntries * entrySize
	// MostPacket is the longest packet, in bytes: it fits a datagram.
	MostPacket = sealedAt + headerSize + mostEntries*entrySize + 16
)

// NewExchange makes one without keys.
func NewExchange() *Exchange {
	x := &Exchange{}
	var drawn [4]byte
	_, _ = rand.Read(drawn[:]) // never fails
	x.from = binary.LittleEndian.Uint32(drawn[:])
	return x
}

// Receive has entries of others given to f. It is called before anything is learnt.
func (x *Exchange) Receive(f func(now time.Time, e Entry)) { x.to = append(x.to, f) }

// Meet has the texts given to f by which others introduce themselves. It is called before anything
// is learnt; f must not keep a text.
func (x *Exchange) Meet(f func(now time.Time, from uint32, text []byte)) { x.met = f }

// Introduce returns a packet that gives the others a text, which they get as Meet says; nil: there
// are no keys, or the text is too long.
func (x *Exchange) Introduce(now time.Time, text []byte) []byte {
	k := x.keys.Load()
	if k == nil || len(text) > MostText {
		return nil
	}
	return k[0].seal(now, x.from, introduces, text)
}

// SetKeys has packets sealed with one key, and those opened that were sealed with either.
func (x *Exchange) SetKeys(signing, other [32]byte) {
	x.keys.Store(&keys{newKey(signing), newKey(other)})
}

func newKey(k [32]byte) key {
	block, _ := aes.NewCipher(k[:]) // fails for other lengths only
	aead, _ := cipher.NewGCM(block) // fails for other block sizes only
	return key{Fingerprint(k), aead}
}

// Fingerprint distinguishes keys, and reveals nothing about them.
func Fingerprint(k [32]byte) [printSize]byte {
	sum := sha256.Sum256(append([]byte("tempomat fingerprint "), k[:]...))
	return [printSize]byte(sum[:])
}

// Tell has the others told of what was seen here, unless they were recently.
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

// isNews reports whether an entry was neither told nor heard for a while, and notes that it is now.
func (x *Exchange) isNews(e *Entry) bool {
	const (
		minutes = 1<<16 - 1 // counted around
		late    = 60        // one that comes so many minutes late is none
	)
	h := (e.Hash ^ uint64(e.Kind)<<56 ^ binary.LittleEndian.Uint64(e.Data[:])*0x2545f4914f6cdd1d ^
		uint64(binary.LittleEndian.Uint32(e.Data[8:]))*0xff51afd7ed558ccd) * 0xc4ceb9fe1a85ec53
	minute := uint64(e.At/60) & minutes //nolint:gosec // as many bits as are kept
	place := &x.said[h>>(64-saidBits)]
	said := place.Load()
	mark, since := h&^minutes, (minute-said)&minutes
	if said&^minutes == mark && (since < uint64(Renew/time.Minute) || since > minutes-late) {
		return false
	}
	return place.CompareAndSwap(said, mark|minute)
}

// Ask has the others asked what they know: as this instance begins, or finds others.
func (x *Exchange) Ask(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.askingUntil = now.Add(askFor)
}

// Pack returns the packets that are to be carried to the others now; a few times a second. Of
// what is too much for them the latest is told.
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

// nextLocked is what is told next: what is new, what was told before to who asks, or else a
// little of that as some may have been lost.
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

// written is entries as a packet has them.
func written(now time.Time, entries []Entry) (b []byte) {
	b = make([]byte, 0, mostEntries*entrySize)
	for _, e := range entries {
		b = append(b, byte(e.Kind), byte(max(0, min((now.Unix()-e.At)/60, 255))))
		b = append(binary.LittleEndian.AppendUint64(b, e.Hash), e.Data[:]...)
	}
	return b
}

// seal makes a packet.
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

// Learn takes in a packet, from whomever it is.
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
			x.isNews(&e) // it need not be told again
			for _, f := range x.to {
				f(now, e)
			}
		}
	}
}

// open returns what is sealed in a packet that was made with one of the keys, by another instance
// and not long ago, and when that was.
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
	if *seen == nonce { // or who sends one again and again would leave no room for others
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

// openedLocked reads what a packet has before its entries, and returns all of it if it counts.
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

// State is a picture of it.
func (x *Exchange) State() ExchangeState {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.state
	if k := x.keys.Load(); k != nil {
		s.Secret = hex.EncodeToString(k[0].print[:])
	}
	return s
}
