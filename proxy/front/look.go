package front

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// The states of a TCP connection whose other side sends nothing more.
const (
	tcpClose     = 7
	tcpCloseWait = 8
)

// hasLeft reports whether the other side of a connection has closed it, also if what it
// sent before that has not been read.
func hasLeft(raw syscall.RawConn, isTCP bool) (left bool) {
	err := raw.Control(func(fd uintptr) {
		if isTCP {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			left = err == nil && (info.State == tcpClose || info.State == tcpCloseWait)
			return
		}
		var b [1]byte
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		left = err == nil && n == 0 || err == unix.ECONNRESET
	})
	return left || err != nil // it is closed on this side
}
