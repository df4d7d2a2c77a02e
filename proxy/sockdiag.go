package proxy

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// The kernel's answers about sockets, sock_diag(7). /proc/net/tcp tells the same,
// but walks the table of all connections for it, 1.5 ms a time on a machine with
// 16 GB where this takes 15 µs.
const (
	diagByFamily = 20      // SOCK_DIAG_BY_FAMILY
	dumpRequest  = 0x301   // NLM_F_REQUEST | NLM_F_DUMP
	stateListen  = 1 << 10 // TCP_LISTEN, of unix sockets, too
	familyUnix   = 1
	familyIPv4   = 2
	familyIPv6   = 10
	protocolTCP  = 6

	nlHeader      = 16 // bytes of a netlink message's header
	nlError       = 2  // NLMSG_ERROR
	nlDone        = 3  // NLMSG_DONE
	inetMessage   = 72 // bytes of inet_diag_msg
	unixMessage   = 16 // bytes of unix_diag_msg
	showName      = 1  // UDIAG_SHOW_NAME
	showInode     = 2  // UDIAG_SHOW_VFS
	showQueue     = 16 // UDIAG_SHOW_RQLEN
	attributeName = 0  // UNIX_DIAG_NAME
	attributeFile = 1  // UNIX_DIAG_VFS
	attributeLen  = 4  // UNIX_DIAG_RQLEN
)

// listening is one listening socket.
type listening struct {
	address netip.Addr // of a TCP socket
	port    uint16
	name    []byte // of a unix socket, as it was bound; valid until the next dump
	inode   uint32 // of that name's file
	queued  uint32 // connections that have not been accepted
}

// askInet writes the request for a family's listening TCP sockets of that port.
func askInet(b []byte, family byte, port uint16) []byte {
	b = header(b, nlHeader+56)
	b = append(b, family, protocolTCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, stateListen)
	b = binary.BigEndian.AppendUint16(b, port)
	return append(b, make([]byte, 46)...) // any peer, any address
}

// askUnix writes the request for all listening unix sockets.
func askUnix(b []byte) []byte {
	b = header(b, nlHeader+24)
	b = append(b, familyUnix, 0, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, stateListen)
	b = binary.NativeEndian.AppendUint32(b, 0) // any inode
	b = binary.NativeEndian.AppendUint32(b, showName|showInode|showQueue)
	return append(b, make([]byte, 8)...)
}

func header(b []byte, length uint32) []byte {
	b = binary.NativeEndian.AppendUint32(b[:0], length)
	b = binary.NativeEndian.AppendUint16(b, diagByFamily)
	b = binary.NativeEndian.AppendUint16(b, dumpRequest)
	return append(b, make([]byte, 8)...) // no sequence number: one request at a time
}

// readDiag calls each for every socket that a part of an answer tells of. done:
// nothing follows; ok: the answer is one, as far as this part goes.
func readDiag(b []byte, each func(listening)) (done, ok bool) {
	for len(b) > 0 {
		if len(b) < nlHeader {
			return true, false
		}
		n := int(binary.NativeEndian.Uint32(b))
		if n < nlHeader || n > len(b) {
			return true, false
		}
		body := b[nlHeader:n]
		switch binary.NativeEndian.Uint16(b[4:]) {
		case nlDone:
			return true, true
		case nlError:
			return true, false
		case diagByFamily:
			if s, ok := readSocket(body); ok {
				each(s)
			}
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return false, true
}

func readSocket(b []byte) (s listening, ok bool) {
	switch {
	case len(b) >= inetMessage && b[0] == familyIPv4:
		s.address = netip.AddrFrom4([4]byte(b[8:]))
	case len(b) >= inetMessage && b[0] == familyIPv6:
		s.address = netip.AddrFrom16([16]byte(b[8:])).Unmap()
	case len(b) >= unixMessage && b[0] == familyUnix:
		return readUnix(b[unixMessage:])
	default:
		return s, false
	}
	s.port = binary.BigEndian.Uint16(b[4:])
	s.queued = binary.NativeEndian.Uint32(b[56:])
	return s, true
}

// readUnix reads the attributes of a unix socket. Without its queue it is none.
func readUnix(b []byte) (s listening, ok bool) {
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return s, false
		}
		value := b[4:n]
		switch kind := binary.NativeEndian.Uint16(b[2:]); {
		case kind == attributeName:
			s.name = bytes.TrimRight(value, "\x00")
		case kind == attributeFile && len(value) >= 4:
			s.inode = binary.NativeEndian.Uint32(value)
		case kind == attributeLen && len(value) >= 4:
			s.queued, ok = binary.NativeEndian.Uint32(value), true
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return s, ok
}
