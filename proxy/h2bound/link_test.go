package h2bound

import (
	"time"
)

// link is a connection whose both sides are played.
type link struct {
	*bounds
	now     time.Duration
	why     Flood  // why it was closed
	in, out []byte // what has been played
}

func newLink() *link {
	l := &link{bounds: newBounds(1)}
	l.gets([]byte(preface), encode(settings, 0, 0))
	l.sends(encode(settings, 0, 0), encode(settings, ack, 0))
	l.gets(encode(settings, ack, 0))
	return l
}

// gets takes frames of the client, until it is closed.
func (l *link) gets(frames ...[]byte) {
	for _, f := range frames {
		if l.in = append(l.in, f...); l.why == "" {
			_, l.why = l.read(l.now, f)
		}
	}
}

// sends takes frames of the server, until it is closed.
func (l *link) sends(frames ...[]byte) {
	for _, f := range frames {
		if l.out = append(l.out, f...); l.why == "" {
			l.why = l.write(l.now, f)
		}
	}
}

// client and server play one frame of either side, without its payload.
func (l *link) client(k kind, flags byte, stream uint32, length int, value uint32) {
	if l.why == "" {
		l.why = l.fromClient(l.now, frame{length: length, kind: k, flags: flags, stream: stream, value: value})
	}
}

func (l *link) server(k kind, flags byte, stream uint32, length int, value uint32) {
	if l.why == "" {
		l.why = l.fromServer(l.now, frame{length: length, kind: k, flags: flags, stream: stream, value: value})
	}
}

// request is the frame of a request without a body. Odd numbers only come from clients.
func request(n int) []byte {
	return encode(headers, endHeaders|endStream, id(n), 0x82, 0x84, 0x86)
}

func id(n int) uint32 { return uint32(2*n + 1) }
