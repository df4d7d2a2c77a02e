package gossip

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"tempomat/limiter"
)

// version is the version of the messages. Messages of a different version are counted and ignored.
const version = 2

// kind is the kind of a message. Unknown kinds are ignored, so new kinds can be added.
type kind byte

const (
	kindTotals kind = iota + 1 // charges
	kindState                  // debts, and the totals that they include
	kindPacket                 // the rest is a packet of package known
)

// These are the limits of messages. A limiter's names are never longer; a charge with a longer name would be
// counted as dropped.
const (
	maxID      = 512 // bytes of a key's ID
	maxClass   = 64  // bytes of a class's name
	maxClasses = 200 // in one message
	maxMembers = 1 << 10
	maxCost    = 24 * time.Hour
	maxNumber  = 1 << 48
	maxPacket  = 1200 // bytes; an encrypted packet fits into a UDP packet of memberlist
	maxState   = 1 << 20
)

// Node identifies one run of an instance by a random number that is drawn at the start. After a restart, the
// instance is another node.
type Node uint64

// count is the total that a node has charged a key since a series began.
type count struct {
	series uint64 // a node's series numbers increase; 0: no series
	micros uint64
}

// message is a received message.
type message struct {
	kind  kind
	from  Node
	begun uint64 // the sender's series up to this number began before the message
	keys  []told
	nodes []Node // in a state: the nodes to which the counts belong
}

// told is the part of a message that concerns one key.
type told struct {
	key    limiter.Key
	owes   time.Duration // in a state: how long the key stays in debt
	counts []count       // one count; in a state, one for each of the nodes
}

// writer writes a message. It writes a class's name only the first time, and a number after that.
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

// hasRoom reports whether a key with the given number of counts still fits.
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

// parse reads a message. It allocates only a small multiple of the message's length.
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
			t.owes = time.Duration(r.number(uint64(maxCost/time.Microsecond))) * time.Microsecond //nolint:gosec // limited above
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

// reader reads the parts of a message. After the first error, it returns zeros and has no data left, so a
// single check at the end is enough.
type reader struct {
	rest    []byte
	failed  bool
	classes []string
}

func (r *reader) fail() { r.rest, r.failed = nil, true }

// number reads a number. It fails if the number is above most.
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

// text reads a length, and then as many bytes.
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
