package proxy

import (
	"net"

	"golang.org/x/sys/unix"
)

// The states of a TCP connection whose other side sends nothing more.
const (
	tcpClose     = 7
	tcpCloseWait = 8
)

// hasLeft tells whether the other side of a TCP connection has closed it, also if
// what it sent before that has not been read.
func hasLeft(c net.Conn) bool {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return false
	}
	left := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		left = err == nil && (info.State == tcpClose || info.State == tcpCloseWait)
	})
	return err == nil && left
}
