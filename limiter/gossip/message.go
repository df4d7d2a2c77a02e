package gossip

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"tempomat/limiter"
)

// version of the messages. Those of another one are counted and ignored.
const version = 2

// kind of a message. Unknown kinds are ignored, so new ones can be added.
type kind byte

const (
	kindTotals kind = iota + 1 // what was charged
	kindState                  // what is owed, and the totals that this includes
	kindPacket                 // a packet of package known, which is all that follows
)

// Bounds of what travels. A limiter does not make longer names; what is beyond is
// not shared, and counted.
const (
	maxID      = 512 // bytes of a key's ID
	maxClass   = 64  // bytes of a class's name
	maxClasses = 200 // in a message
	maxMembers = 1 << 10
	maxCost    = 24 * time.Hour
	maxNumber  = 1 << 48
	maxPacket  = 1200 // bytes: it fits a UDP packet of memberlist, encrypted
	maxState   = 1 << 20
)

// Node is one run of one sidecar: a random number that it draws as it starts, so
// that one that was restarted is another.
type Node uint64

// count is what a node charged a key, since the series began.
type count struct {
	series uint64 // numbers of one node grow; 0: there is none
	micros uint64
}

// message is one that was received.
type message struct {
	kind  kind
	from  Node
	begun uint64 // all series of the sender up to this number began before
	keys  []told
	nodes []Node // state: whose counts are told
}

// told is what a message says of a key.
type told struct {
	key    limiter.Key
	owes   time.Duration // state: for how long
	counts []count       // one; state: one for each of the nodes
}

// writer writes a message. A class is named where it comes for the first time, and
// is a number from then on.
type writer struct {
	data    []byte
	most    int
	classes []string
}

func newWriter(k kind, from Node, begun uint64, most int) *writer {
	w := &writer{data: []byte{version, byte(k)}, most: most}
	w.node(from)
	w.number(begun)
	return w
}

// hasRoom reports whether a key fits with so many counts.
func (w *writer) hasRoom(k limiter.Key, counts int) bool {
	return len(w.classes) < maxClasses && len(w.data)+len(k.ID)+len(k.Class)+12+14*counts <= w.most
}

func (w *writer) node(id Node) { w.data = binary.BigEndian.AppendUint64(w.data, uint64(id)) }

func (w *writer) number(x uint64) { w.data = binary.AppendUvarint(w.data, x) }

func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	w.data = append(w.data, s...)
}

func (w *writer) key(k limiter.Key) {
	if class := slices.Index(w.classes, k.Class); class >= 0 {
		w.number(uint64(class))
	} else {
		w.number(uint64(len(w.classes)))
		w.text(k.Class)
		w.classes = append(w.classes, k.Class)
	}
	w.text(k.ID)
}

func (w *writer) count(c count) {
	w.number(c.series)
	w.number(c.micros)
}

var errMalformed = errors.New("not a message of this version")

// parse takes a message apart. It allocates no more than some times its length.
func parse(b []byte) (message, error) {
	r := reader{rest: b}
	if r.number(version) != version {
		return message{}, errMalformed
	}
	m := message{kind: kind(r.number(0x7f) & 0x7f), from: r.node(), begun: r.number(maxNumber)}
	switch m.kind {
	case kindTotals:
		for len(r.rest) > 0 {
			m.keys = append(m.keys, told{key: r.key(), counts: []count{r.count()}})
		}
	case kindState:
		for range r.number(maxMembers) {
			m.nodes = append(m.nodes, r.node())
		}
		for len(r.rest) > 0 {
			t := told{key: r.key()}
			t.owes = time.Duration(r.number(uint64(maxCost/time.Microsecond))) * time.Microsecond //nolint:gosec // bounded
			for i := 0; i < len(m.nodes) && !r.failed; i++ {
				t.counts = append(t.counts, r.count())
			}
			m.keys = append(m.keys, t)
		}
	default:
		r.fail()
	}
	if r.failed {
		return message{}, errMalformed
	}
	return m, nil
}

// reader takes a message apart. After the first fault it returns zeros and nothing is left, so
// only the end must be checked.
type reader struct {
	rest    []byte
	failed  bool
	classes []string
}

func (r *reader) fail() { r.rest, r.failed = nil, true }

// number reads one that is at most so great.
func (r *reader) number(most uint64) uint64 {
	x, n := binary.Uvarint(r.rest)
	if n <= 0 || x > most {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return x
}

func (r *reader) node() Node {
	if len(r.rest) < 8 {
		r.fail()
		return 0
	}
	id := Node(binary.BigEndian.Uint64(r.rest))
	r.rest = r.rest[8:]
	return id
}

// text reads a length and so many bytes.
func (r *reader) text(most uint64) string {
	n := r.number(most)
	if n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

func (r *reader) key() limiter.Key {
	class := r.number(maxClasses)
	if class == uint64(len(r.classes)) {
		r.classes = append(r.classes, r.text(maxClass))
	}
	if class >= uint64(len(r.classes)) {
		r.fail()
		return limiter.Key{}
	}
	return limiter.Key{Class: r.classes[class], ID: r.text(maxID)}
}

func (r *reader) count() count { return count{r.number(maxNumber), r.number(maxNumber)} }
