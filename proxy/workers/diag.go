package workers

import (
	"encoding/binary"
	"net/netip"
)

// What sock_diag(7) is asked, and how it answers.
const (
	diagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	askOne       = 1  // NLM_F_REQUEST
	askAll       = 0x301
	listens      = 1 << 10 // TCP_LISTEN, of unix sockets, too
	established  = 1       // TCP_ESTABLISHED, of unix sockets, too
	handshake    = 3       // TCP_SYN_RECV: the queue is full, or takes no connection without a request
	familyUnix   = 1
	familyIPv4   = 2
	familyIPv6   = 10
	protocolTCP  = 6

	nlHeader    = 16
	nlError     = 2
	nlDone      = 3
	inetMessage = 72
	unixMessage = 16
	showName    = 1
	showPeer    = 4
	unixName    = 0
	unixPeer    = 2

	unixShutdown = 6
	closed       = 7 // TCP_CLOSE
)

// socket is what the kernel tells of one.
type socket struct {
	inode uint32
	state byte   // 0: there is no such socket
	port  uint16 // of a TCP socket, its own
	peer  uint32 // the inode of a unix socket's other end; 0: it has none
	name  []byte // of a unix socket, as it was bound; valid until the next question
}

// askTCP asks for the socket at local whose other end is remote.
func askTCP(b []byte, local, remote netip.AddrPort) []byte {
	family := byte(familyIPv6)
	if local.Addr().Is4() {
		family = familyIPv4
	}
	b = askInet(b, askOne, family, 0, local.Port(), remote.Port())
	copy(b[nlHeader+12:], local.Addr().AsSlice())
	copy(b[nlHeader+28:], remote.Addr().AsSlice())
	return b
}

// askInet asks for all TCP sockets of a family in those states, or by their ports; 0: any.
func askInet(b []byte, flags uint16, family byte, states uint32, port, other uint16) []byte {
	b = header(b, flags, nlHeader+56)
	b = append(b, family, protocolTCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, states)
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, other)
	b = append(b, make([]byte, 36)...)
	return append(b, anyCookie...)
}

// askUnix asks for the unix socket of that inode, or for all in those states.
func askUnix(b []byte, inode, states uint32) []byte {
	flags := uint16(askOne)
	if inode == 0 {
		flags = askAll
	}
	b = header(b, flags, nlHeader+24)
	b = append(b, familyUnix, 0, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, states)
	b = binary.NativeEndian.AppendUint32(b, inode)
	b = binary.NativeEndian.AppendUint32(b, showName|showPeer)
	return append(b, anyCookie...)
}

const anyCookie = "\xff\xff\xff\xff\xff\xff\xff\xff"

func header(b []byte, flags uint16, length uint32) []byte {
	b = binary.NativeEndian.AppendUint32(b[:0], length)
	b = binary.NativeEndian.AppendUint16(b, diagByFamily)
	b = binary.NativeEndian.AppendUint16(b, flags)
	return append(b, make([]byte, 8)...)
}

// readDiag calls each for every socket in a part of an answer. done: nothing follows.
func readDiag(b []byte, one bool, each func(socket)) (done bool) {
	for len(b) >= nlHeader {
		n := int(binary.NativeEndian.Uint32(b))
		if n < nlHeader || n > len(b) {
			return true
		}
		switch binary.NativeEndian.Uint16(b[4:]) {
		case nlDone, nlError:
			return true
		case diagByFamily:
			if s, ok := readSocket(b[nlHeader:n]); ok {
				each(s)
			}
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return one || len(b) > 0
}

func readSocket(b []byte) (s socket, ok bool) {
	switch {
	case len(b) >= inetMessage && (b[0] == familyIPv4 || b[0] == familyIPv6):
		s.state = b[1]
		s.port = binary.BigEndian.Uint16(b[4:])
		s.inode = binary.NativeEndian.Uint32(b[68:])
		return s, true
	case len(b) >= unixMessage && b[0] == familyUnix:
		s.inode, s.state = binary.NativeEndian.Uint32(b[4:]), b[2]
	default:
		return s, false
	}
	for b = b[unixMessage:]; len(b) >= 4; {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return s, false
		}
		value := b[4:n]
		switch kind := binary.NativeEndian.Uint16(b[2:]); {
		case kind == unixName:
			s.name = value
		case kind == unixShutdown && len(value) >= 1 && value[0] != 0:
			s.state = closed
		case kind == unixPeer && len(value) >= 4:
			s.peer = binary.NativeEndian.Uint32(value)
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return s, true
}
