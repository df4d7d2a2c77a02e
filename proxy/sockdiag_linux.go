package proxy

import (
	"fmt"
	"syscall"
)

const (
	netlinkSockDiag = 4  // NETLINK_SOCK_DIAG, which package syscall does not name
	mostParts       = 64 // of an answer, each with some hundred sockets
)

// diagSocket asks the kernel about sockets. It is not for concurrent use.
type diagSocket struct {
	fd      int
	request []byte
	answer  [32 << 10]byte // what the kernel fills at most
}

func openDiag() (*diagSocket, error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, netlinkSockDiag)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel about sockets: %w", err)
	}
	// The kernel answers at once; if it ever does not, nothing shall hang.
	timeout := syscall.Timeval{Sec: 1}
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout); err != nil {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("ask the kernel about sockets: %w", err)
	}
	return &diagSocket{fd: fd}, nil
}

func (d *diagSocket) close() { _ = syscall.Close(d.fd) }

// inet calls each for every TCP socket that listens on that port.
func (d *diagSocket) inet(port uint16, each func(listening)) bool {
	d.request = askInet(d.request, familyIPv4, port)
	ok := d.ask(each)
	d.request = askInet(d.request, familyIPv6, port)
	return d.ask(each) || ok // a machine may be without IPv6
}

// unix calls each for every unix socket that listens.
func (d *diagSocket) unix(each func(listening)) bool {
	d.request = askUnix(d.request)
	return d.ask(each)
}

// ask sends the request and reads the answer to its end. After half an answer
// the rest would be taken for the next one, so the socket is opened anew.
func (d *diagSocket) ask(each func(listening)) bool {
	if _, err := syscall.Write(d.fd, d.request); err != nil { // to the kernel, as no other peer is named
		return false
	}
	for range mostParts {
		n, err := syscall.Read(d.fd, d.answer[:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			break
		}
		if done, ok := readDiag(d.answer[:n], each); done {
			return ok
		}
	}
	if fresh, err := openDiag(); err == nil {
		d.close()
		d.fd = fresh.fd
	}
	return false
}
