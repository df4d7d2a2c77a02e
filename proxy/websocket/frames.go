package websocket

import "encoding/binary"

// Frames follows the frames that a server sends to a client. The zero value is at the
// beginning, after the head of the 101. Not for concurrent use.
type Frames struct {
	head   [longestHead]byte
	have   int    // bytes of head
	left   uint64 // bytes of the payload that have not come
	within bool   // a message of several frames
	state  state
}

type state uint8

const (
	following state = iota
	closed          // a close frame has passed: no other may follow
	lost            // what came were no frames
)

// longestHead is that of a frame from a server, which has no mask: two bytes, and eight
// of length.
const longestHead = 10

// The first byte: a frame that ends its message, and what it is.
const (
	final      = 0x80
	opcodes    = 0x0f
	opContinue = 0x0
	opText     = 0x1
	opBinary   = 0x2
	opClose    = 0x8
	opPing     = 0x9
	opPong     = 0xa
)

// The second byte: whether the payload is masked, and its length, or how that is told.
const (
	masked   = 0x80
	lengths  = 0x7f
	length16 = 126
	length64 = 127
	// longestControl is the longest payload of a close, ping or pong.
	longestControl = 125
)

// next takes bytes in, at most up to the end of the frame that they begin with or go on
// with, and returns how many these were: at least one, unless p is empty.
func (f *Frames) next(p []byte) (n int) {
	if f.state != following {
		return len(p)
	}
	for f.left == 0 && n < len(p) {
		f.head[f.have] = p[n]
		f.have++
		n++
		done, sound := f.parse()
		switch {
		case !sound:
			f.state = lost
			return len(p)
		case done && f.left == 0:
			f.have = 0
			f.end()
			return n
		case done:
			f.have = 0
		}
	}
	more := min(f.left, uint64(len(p)-n)) //nolint:gosec // not negative
	if f.left -= more; more > 0 && f.left == 0 {
		f.end()
	}
	return n + int(more) //nolint:gosec // at most what p has
}

// end is that of a frame.
func (f *Frames) end() {
	if f.head[0]&opcodes == opClose {
		f.state = closed
	}
}

// parse looks at the head as far as it has come. It is done if it is complete; the
// length of the payload is then in left.
func (f *Frames) parse() (done, sound bool) {
	switch f.have {
	case 1:
		return false, f.begin(f.head[0])
	case 2:
		length := f.head[1] & lengths
		if f.head[1]&masked != 0 || f.head[0]&opClose != 0 && length > longestControl {
			return false, false
		}
		f.left = 0
		if length < length16 {
			f.left = uint64(length)
			return true, true
		}
	case 4:
		if f.head[1] == length16 {
			f.left = uint64(binary.BigEndian.Uint16(f.head[2:]))
			return true, f.left >= length16 // the shortest way of telling it is the only one
		}
	case longestHead:
		f.left = binary.BigEndian.Uint64(f.head[2:])
		return true, f.left > 0xffff && f.left < 1<<63
	}
	return false, true
}

// begin looks at a frame's first byte. The reserved bits are for extensions that leave
// frames as they are, compression above all (RFC 7692).
func (f *Frames) begin(first byte) (sound bool) {
	switch first & opcodes {
	case opContinue:
		sound = f.within
		f.within = first&final == 0
	case opText, opBinary:
		sound = !f.within
		f.within = first&final == 0
	case opClose, opPing, opPong:
		sound = first&final != 0
	}
	return sound
}

// between tells whether a frame may begin here, and a close frame be put in: nothing of
// a frame has come that has not come to its end, and the server has not closed.
func (f *Frames) between() bool { return f.state == following && f.have == 0 && f.left == 0 }

// follows tells whether Between can become true again.
func (f *Frames) follows() bool { return f.state == following }
