package gossip

import (
	"encoding/binary"
	"errors"
)

var errMalformed = errors.New("not a message of this version")

// reader takes a message apart. After the first fault, all that it returns is
// zero and failed is set, so that only the end has to be checked.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) fail() { r.rest, r.failed = nil, true }

// uvarint reads a number that is at most so great.
func (r *reader) uvarint(most uint64) uint64 {
	x, n := binary.Uvarint(r.rest)
	if n <= 0 || x > most {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return x
}

// bytes reads so many bytes, which stay part of the message.
func (r *reader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.fail()
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// short reads a length and so many bytes.
func (r *reader) short(most int) []byte { return r.bytes(int(r.uvarint(uint64(most)))) } //nolint:gosec // most is small and positive

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) more() bool { return len(r.rest) > 0 }

// done returns the error if there was a fault, or something is left over.
func (r *reader) done() error {
	if r.failed || r.more() {
		return errMalformed
	}
	return nil
}
