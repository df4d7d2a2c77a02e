package gossip

import (
	"encoding/binary"
	"time"
)

// version of the messages. Those of another one are counted and ignored.
const version = 1

// kind of a message.
type kind byte

const (
	push    kind = iota + 1 // parcels
	digest                  // what the sender has; the answer is what it lacks
	reply                   // a digest that is such an answer, and gets none but parcels
	ask                     // for a summary
	summary                 // debts, and what they include
)

const (
	maxSeq     = 1 << 48
	maxMillis  = 1 << 48
	maxWithin  = 300_000 // milliseconds: the longest history
	maxSpans   = 16
	maxOrigins = 40 // in a digest: the rest is told another time
	maxMembers = 1 << 10
)

// parcel is what a node charged to some keys in an epoch. It never changes.
type parcel struct {
	origin node
	seq    uint64 // from 1 on, without gaps
	ended  int64  // the epoch, in milliseconds since 1970 by the clock of the origin
	data   []byte // amounts, packed
}

// versionVectorEntry is what somebody has of one origin's parcels.
type versionVectorEntry struct {
	origin  node
	high    uint64
	missing []span        // below high, the newest first
	within  time.Duration // older ones are not wanted
}

// message is one that was received. What it points to is part of the bytes.
type message struct {
	kind          kind
	from          node
	sent          time.Time // by the clock of the sender
	parcels       []parcel
	versionVector []versionVectorEntry
	debts         [][]byte // amounts, packed
}

// head begins a message.
func head(k kind, from node, now time.Time) []byte {
	b := []byte{version, byte(k)}
	b = binary.BigEndian.AppendUint64(b, uint64(from))
	return binary.BigEndian.AppendUint64(b, uint64(now.UnixMicro()))
}

func appendParcel(b []byte, p parcel) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(p.origin))
	b = binary.AppendUvarint(b, p.seq)
	b = binary.AppendUvarint(b, uint64(p.ended)) //nolint:gosec // a time of day, positive
	b = binary.AppendUvarint(b, uint64(len(p.data)))
	return append(b, p.data...)
}

func appendVersionVector(b []byte, list []versionVectorEntry) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, h := range list {
		b = binary.BigEndian.AppendUint64(b, uint64(h.origin))
		b = binary.AppendUvarint(b, h.high)
		b = binary.AppendUvarint(b, uint64(h.within.Milliseconds())) //nolint:gosec // positive
		b = binary.AppendUvarint(b, uint64(len(h.missing)))
		below := h.high
		for _, s := range h.missing {
			b = binary.AppendUvarint(b, below-s.to)
			b = binary.AppendUvarint(b, s.to-s.from)
			below = s.from
		}
	}
	return b
}

// parse takes a message apart. It allocates no more than a few times its length.
func parse(b []byte) (message, error) {
	r := reader{rest: b}
	if r.byte() != version {
		return message{}, errMalformed
	}
	m := message{kind: kind(r.byte()), from: node(r.uint64())}
	m.sent = time.UnixMicro(int64(r.uint64() & (1<<62 - 1)))
	switch m.kind {
	case push:
		for r.more() {
			m.parcels = append(m.parcels, r.parcel())
		}
	case digest, reply:
		m.versionVector = r.versionVector(maxOrigins)
	case ask:
	case summary:
		m.versionVector = r.versionVector(maxMembers)
		for r.more() {
			m.debts = append(m.debts, r.short(maxRaw))
		}
	default:
		r.fail()
	}
	return m, r.done()
}

func (r *reader) parcel() parcel {
	p := parcel{
		origin: node(r.uint64()),
		seq:    r.uvarint(maxSeq),
		ended:  int64(r.uvarint(maxMillis)), //nolint:gosec // bounded
		data:   r.short(maxParcel),
	}
	if p.seq == 0 {
		r.fail()
	}
	return p
}

func (r *reader) versionVector(most uint64) (list []versionVectorEntry) {
	for range r.uvarint(most) {
		h := versionVectorEntry{
			origin: node(r.uint64()),
			high:   r.uvarint(maxSeq),
			within: time.Duration(r.uvarint(maxWithin)) * time.Millisecond, //nolint:gosec // bounded
		}
		below := h.high
		for range r.uvarint(maxSpans) {
			to := below - r.uvarint(below)
			from := to - r.uvarint(to)
			h.missing = append(h.missing, span{from, to})
			below = from
		}
		if r.failed {
			return nil
		}
		list = append(list, h)
	}
	return list
}
