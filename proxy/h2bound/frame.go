package h2bound

import "encoding/binary"

// preface is what a client of HTTP/2 sends first (RFC 9113, 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

const (
	headerSize = 9 // of a frame, in bytes
	valueSize  = 4 // of what is looked at behind it, in bytes
)

// kind is the type of a frame. Types that are not named here all cost the same.
type kind byte

const (
	data         kind = 0x0
	headers      kind = 0x1
	resetStream  kind = 0x3
	settings     kind = 0x4
	ping         kind = 0x6
	goAway       kind = 0x7
	windowUpdate kind = 0x8
	continuation kind = 0x9
)

const (
	endStream = 0x1 // of DATA and HEADERS
	ack       = 0x1 // of SETTINGS and PING
)

// frame is a frame without its payload.
type frame struct {
	length int // of the payload, in bytes
	kind   kind
	flags  byte
	stream uint32
	value  uint32 // the payload of WINDOW_UPDATE and of RST_STREAM, else 0
}

func (f frame) ends() bool         { return f.flags&endStream != 0 }
func (f frame) acknowledges() bool { return f.flags&ack != 0 }

// scanner follows the frames of one direction of a connection. It copies their
// headers, and of two types the four bytes behind them.
type scanner struct {
	begin [headerSize + valueSize]byte // of the frame that comes, as far as it has
	have  int                          // bytes of it
	skip  int                          // bytes of a payload that are still to come
}

// next follows p to the next frame that can be told, and returns it with the rest of
// p. It is false where p ends before.
func (s *scanner) next(p []byte) (f frame, rest []byte, ok bool) {
	n := min(len(p), s.skip)
	s.skip -= n
	for p = p[n:]; len(p) > 0; {
		n := copy(s.begin[s.have:s.need()], p)
		s.have += n
		p = p[n:]
		if s.have == s.need() {
			f = s.frame()
			s.skip = f.length - (s.have - headerSize)
			s.have = 0
			return f, p, true
		}
	}
	return frame{}, nil, false
}

// need is how many bytes a frame begins with before it can be told.
func (s *scanner) need() int {
	if s.have < headerSize {
		return headerSize
	}
	switch kind(s.begin[3]) {
	case windowUpdate, resetStream:
		return headerSize + min(valueSize, s.length())
	default:
		return headerSize
	}
}

func (s *scanner) length() int {
	return int(s.begin[0])<<16 | int(s.begin[1])<<8 | int(s.begin[2])
}

func (s *scanner) frame() frame {
	const reserved = 1 << 31
	f := frame{
		length: s.length(),
		kind:   kind(s.begin[3]),
		flags:  s.begin[4],
		stream: binary.BigEndian.Uint32(s.begin[5:]) &^ reserved,
	}
	if s.have == headerSize+valueSize {
		f.value = binary.BigEndian.Uint32(s.begin[headerSize:])
		if f.kind == windowUpdate {
			f.value &^= reserved
		}
	}
	return f
}
