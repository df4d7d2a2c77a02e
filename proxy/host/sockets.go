package host

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Requests to sock_diag(7) and its replies. For TCP, /proc/net/tcp shows the same data, but walks the table of
// all connections, which takes 1.5 ms each time on a machine with 16 GB. A request for one listener's port
// takes 15 µs.
const (
	askOne      = unix.NLM_F_REQUEST
	askAll      = unix.NLM_F_REQUEST | unix.NLM_F_DUMP
	nlHeader    = unix.NLMSG_HDRLEN
	inetMessage = 72 // bytes of inet_diag_msg
	inetRequest = 56 // bytes of inet_diag_req_v2
	unixMessage = 16 // bytes of unix_diag_msg
	unixRequest = 24 // bytes of unix_diag_req
	cgroupID    = 21 // INET_DIAG_CGROUP_ID, since Linux 5.9

	showAll      = 1 | 2 | 4 | 16 // UDIAG_SHOW_NAME, _VFS, _PEER, _RQLEN
	unixName     = 0              // UNIX_DIAG_NAME
	unixFile     = 1              // UNIX_DIAG_VFS
	unixPeer     = 2              // UNIX_DIAG_PEER
	unixQueue    = 4              // UNIX_DIAG_RQLEN
	unixShutdown = 6              // UNIX_DIAG_SHUTDOWN
)

// State is the state of a socket. The states of unix sockets have the names of TCP states.
type State byte

// The states that this package uses.
const (
	Established State = 1
	Handshake   State = 3 // TCP_SYN_RECV: the queue is full, or the server waits for the first data
	Closed      State = 7
	Listens     State = 10
)

// Socket is what the kernel reports about a socket.
type Socket struct {
	Inode   uint32 // inode of the socket; 0: the connection isn't accepted yet, so it has no inode
	State   State  // state of the socket; 0: there is no such socket
	Address netip.Addr
	Port    uint16 // own port of a TCP socket
	Peer    uint32 // inode of a unix socket's other end; 0: none
	Name    []byte // name of a unix socket; valid until the next request
	File    uint32 // inode of the file with that name
	Queued  uint32 // number of connections that a listening socket has yet to accept
	Cgroup  uint64 // id of the cgroup in which the socket was made: the inode of a directory; 0: unknown
}

// askTCP asks for the socket at local whose other end is remote.
func askTCP(b []byte, local, remote netip.AddrPort) []byte {
	family := byte(unix.AF_INET6)
	if local.Addr().Is4() {
		family = unix.AF_INET
	}
	b = askInet(b, askOne, family, 0, local.Port(), remote.Port())
	copy(b[nlHeader+12:], local.Addr().AsSlice())
	copy(b[nlHeader+28:], remote.Addr().AsSlice())
	return b
}

// askInet asks for all TCP sockets of an address family with these states and ports. 0 means any.
func askInet(b []byte, flags uint16, family byte, states uint32, port, other uint16) []byte {
	b = header(b, flags, nlHeader+inetRequest)
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, states)
	b = binary.BigEndian.AppendUint16(b, port)
	b = binary.BigEndian.AppendUint16(b, other)
	b = append(b, make([]byte, 36)...)
	return append(b, anyCookie...)
}

// askUnix asks for the unix socket with an inode, or for all sockets in these states.
func askUnix(b []byte, inode, states uint32) []byte {
	flags := uint16(askOne)
	if inode == 0 {
		flags = askAll
	}
	b = header(b, flags, nlHeader+unixRequest)
	b = append(b, unix.AF_UNIX, 0, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, states)
	b = binary.NativeEndian.AppendUint32(b, inode)
	b = binary.NativeEndian.AppendUint32(b, showAll)
	return append(b, anyCookie...)
}

const anyCookie = "\xff\xff\xff\xff\xff\xff\xff\xff"

func header(b []byte, flags uint16, length uint32) []byte {
	b = binary.NativeEndian.AppendUint32(b[:0], length)
	b = binary.NativeEndian.AppendUint16(b, unix.SOCK_DIAG_BY_FAMILY)
	b = binary.NativeEndian.AppendUint16(b, flags)
	return append(b, make([]byte, 8)...) // requests need no sequence number, because only one is sent at a time
}

// readDiag calls each for every socket in a part of a reply. done means that this was the last part, and ok
// that the part is valid.
func readDiag(b []byte, one bool, each func(Socket)) (done, ok bool) {
	for len(b) > 0 {
		if len(b) < nlHeader {
			return true, false
		}
		n := int(binary.NativeEndian.Uint32(b))
		if n < nlHeader || n > len(b) {
			return true, false
		}
		switch binary.NativeEndian.Uint16(b[4:]) {
		case unix.NLMSG_DONE:
			return true, true
		case unix.NLMSG_ERROR:
			return true, false
		case unix.SOCK_DIAG_BY_FAMILY:
			if s, ok := readSocket(b[nlHeader:n]); ok {
				each(s)
			}
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return one, true
}

func readSocket(b []byte) (s Socket, ok bool) {
	switch {
	case len(b) >= inetMessage && (b[0] == unix.AF_INET || b[0] == unix.AF_INET6):
		s.State, s.Port = State(b[1]), binary.BigEndian.Uint16(b[4:])
		if b[0] == unix.AF_INET {
			s.Address = netip.AddrFrom4([4]byte(b[8:]))
		} else {
			s.Address = netip.AddrFrom16([16]byte(b[8:])).Unmap()
		}
		s.Queued = binary.NativeEndian.Uint32(b[56:])
		s.Inode = binary.NativeEndian.Uint32(b[68:])
		return s, attributes(b[inetMessage:], func(kind uint16, value []byte) {
			if kind == cgroupID && len(value) >= 8 {
				s.Cgroup = binary.NativeEndian.Uint64(value)
			}
		})
	case len(b) >= unixMessage && b[0] == unix.AF_UNIX:
		s.State, s.Inode = State(b[2]), binary.NativeEndian.Uint32(b[4:])
		return s, attributes(b[unixMessage:], s.takeUnix)
	}
	return s, false
}

// takeUnix reads an attribute of a unix socket.
func (s *Socket) takeUnix(kind uint16, value []byte) {
	switch {
	case kind == unixName:
		s.Name = bytes.TrimRight(value, "\x00")
	case kind == unixShutdown && len(value) >= 1 && value[0] != 0:
		s.State = Closed
	case len(value) < 4:
	case kind == unixFile:
		s.File = binary.NativeEndian.Uint32(value)
	case kind == unixPeer:
		s.Peer = binary.NativeEndian.Uint32(value)
	case kind == unixQueue:
		s.Queued = binary.NativeEndian.Uint32(value)
	}
}

// attributes calls f for each attribute after a message, and reports whether all are complete.
func attributes(b []byte, f func(kind uint16, value []byte)) (whole bool) {
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return false
		}
		f(binary.NativeEndian.Uint16(b[2:]), b[4:n])
		b = b[min(len(b), (n+3)&^3):]
	}
	return true
}

// mostParts is how many parts of a reply are read. Each holds about a hundred sockets.
const mostParts = 64

// Sockets asks the kernel about sockets. It must not be used concurrently.
type Sockets struct {
	fd      int
	request []byte
	answer  [32 << 10]byte // as large as the largest part of a reply that the kernel sends
}

// OpenSockets opens a netlink socket. That needs no privilege.
func OpenSockets() (*Sockets, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel about sockets: %w", err)
	}
	// The kernel replies at once. If it ever doesn't, reads must not hang.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("ask the kernel about sockets: %w", err)
	}
	return &Sockets{fd: fd}, nil
}

// Close closes the netlink socket.
func (s *Sockets) Close() { _ = unix.Close(s.fd) }

// TCP returns the socket at local whose other end is remote.
func (s *Sockets) TCP(local, remote netip.AddrPort) (found Socket) {
	s.request = askTCP(s.request, local, remote)
	s.ask(true, func(x Socket) { found = x })
	return found
}

// Unix returns the unix socket with that inode.
func (s *Sockets) Unix(inode uint32) (found Socket) {
	s.request = askUnix(s.request, inode, 0)
	s.ask(true, func(x Socket) { found = x })
	return found
}

// EachTCP calls each for the TCP sockets in a state with the given ports at this and at the other end; 0: any
// port. ok is false if the kernel didn't reply.
func (s *Sockets) EachTCP(in State, port, other uint16, each func(Socket)) (ok bool) {
	for _, family := range [...]byte{unix.AF_INET, unix.AF_INET6} {
		s.request = askInet(s.request, askAll, family, 1<<in, port, other)
		ok = s.ask(false, each) || ok // the IPv6 request fails on a machine without IPv6
	}
	return ok
}

// EachUnix calls each for the unix sockets in a state.
func (s *Sockets) EachUnix(in State, each func(Socket)) (ok bool) {
	s.request = askUnix(s.request, 0, 1<<in)
	return s.ask(false, each)
}

// ask sends the request and reads the whole reply. After an incomplete reply, the rest of it would be read as
// the next reply, so ask opens the socket again.
func (s *Sockets) ask(one bool, each func(Socket)) bool {
	if _, err := unix.Write(s.fd, s.request); err != nil { // a netlink message without an address goes to the kernel
		return false
	}
	for range mostParts {
		n, err := unix.Read(s.fd, s.answer[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			break
		}
		if done, ok := readDiag(s.answer[:n], one, each); done {
			return ok
		}
	}
	if fresh, err := OpenSockets(); err == nil {
		s.Close()
		s.fd = fresh.fd
	}
	return false
}
