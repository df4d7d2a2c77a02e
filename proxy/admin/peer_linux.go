package admin

import (
	"fmt"
	"net"
	"syscall"
)

// peerOf is the user at the other end of a unix socket, as the kernel knows it; empty: it
// does not.
func peerOf(c *net.UnixConn) (by string) {
	raw, err := c.SyscallConn()
	if err != nil {
		return ""
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			by = fmt.Sprintf("uid %d", cred.Uid)
		}
	})
	return by
}
