package proxy

import (
	"net"
	"syscall"
)

const (
	// tcpNotsentLowat is TCP_NOTSENT_LOWAT of tcp(7), which package syscall does
	// not name.
	tcpNotsentLowat = 0x19
	// mostUnsent is how many bytes may wait in the kernel to be sent. Without a
	// bound that is megabytes, and a client that reads them slowly but steadily
	// looks for minutes like one that reads nothing.
	mostUnsent = 64 << 10
)

// boundUnsent bounds what a connection may keep unsent. A listener does not
// hand the option down.
func boundUnsent(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // closed already
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotsentLowat, mostUnsent) // without it only the timeout is coarser
	})
}
