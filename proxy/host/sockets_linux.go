package host

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// mostParts is of an answer, each with some hundred sockets.
const mostParts = 64

// Sockets asks the kernel about sockets. It is not for concurrent use.
type Sockets struct {
	fd      int
	request []byte
	answer  [32 << 10]byte // what the kernel fills at most
}

// OpenSockets opens what is asked; it takes no right.
func OpenSockets() (*Sockets, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel about sockets: %w", err)
	}
	// The kernel answers at once; if it ever does not, nothing shall hang.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("ask the kernel about sockets: %w", err)
	}
	return &Sockets{fd: fd}, nil
}

// Close closes it.
func (s *Sockets) Close() { _ = unix.Close(s.fd) }

// TCP returns the socket at local whose other end is remote.
func (s *Sockets) TCP(local, remote netip.AddrPort) (found Socket) {
	s.request = askTCP(s.request, local, remote)
	s.ask(true, func(x Socket) { found = x })
	return found
}

// Unix returns the unix socket of that inode.
func (s *Sockets) Unix(inode uint32) (found Socket) {
	s.request = askUnix(s.request, inode, 0)
	s.ask(true, func(x Socket) { found = x })
	return found
}

// EachTCP calls each for the sockets in a state, by their own port and that of the other
// end; 0: any. Not ok: the kernel did not tell.
func (s *Sockets) EachTCP(in State, port, other uint16, each func(Socket)) (ok bool) {
	for _, family := range [...]byte{familyIPv4, familyIPv6} {
		s.request = askInet(s.request, askAll, family, 1<<in, port, other)
		ok = s.ask(false, each) || ok // a machine may be without IPv6
	}
	return ok
}

// EachUnix calls each for the unix sockets in a state.
func (s *Sockets) EachUnix(in State, each func(Socket)) (ok bool) {
	s.request = askUnix(s.request, 0, 1<<in)
	return s.ask(false, each)
}

// ask sends the request and reads the answer to its end. After half an answer the rest
// would be taken for the next one, so the socket is opened again.
func (s *Sockets) ask(one bool, each func(Socket)) bool {
	if _, err := unix.Write(s.fd, s.request); err != nil { // to the kernel, as no other peer is named
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
