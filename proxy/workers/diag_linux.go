package workers

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// mostParts is of an answer, each with some hundred sockets.
const mostParts = 64

// diag asks the kernel about sockets. It is not for concurrent use.
type diag struct {
	fd      int
	request []byte
	answer  [32 << 10]byte
}

func openDiag() (*diag, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel about sockets: %w", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("ask the kernel about sockets: %w", err)
	}
	return &diag{fd: fd}, nil
}

func (d *diag) close() { _ = unix.Close(d.fd) }

// tcp returns the socket at local whose other end is remote.
func (d *diag) tcp(local, remote netip.AddrPort) (found socket) {
	d.request = askTCP(d.request, local, remote)
	d.ask(true, func(s socket) { found = s })
	return found
}

// unix returns the unix socket of that inode.
func (d *diag) unix(inode uint32) (found socket) {
	d.request = askUnix(d.request, inode, 0)
	d.ask(true, func(s socket) { found = s })
	return found
}

// eachTCP calls each for the sockets in those states, by their own port and that of the
// other end; 0: any.
func (d *diag) eachTCP(states uint32, port, other uint16, each func(socket)) {
	for _, family := range [...]byte{familyIPv4, familyIPv6} {
		d.request = askInet(d.request, askAll, family, states, port, other)
		d.ask(false, each)
	}
}

// eachUnix calls each for the unix sockets in those states.
func (d *diag) eachUnix(states uint32, each func(socket)) {
	d.request = askUnix(d.request, 0, states)
	d.ask(false, each)
}

// ask sends the request and reads the answer to its end. After half an answer the rest
// would be taken for the next one, so the socket is opened anew.
func (d *diag) ask(one bool, each func(socket)) {
	if _, err := unix.Write(d.fd, d.request); err != nil {
		return
	}
	for range mostParts {
		n, err := unix.Read(d.fd, d.answer[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			break
		}
		if readDiag(d.answer[:n], one, each) {
			return
		}
	}
	if fresh, err := openDiag(); err == nil {
		d.close()
		d.fd = fresh.fd
	}
}
