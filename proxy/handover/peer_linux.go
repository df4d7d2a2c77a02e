package handover

import (
	"net"
	"syscall"
)

// peer is the process at the other end of a connection: that which connected, or that
// which listened first.
func peer(conn *net.UnixConn) (pid int, uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var who *syscall.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		who, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, 0, err
	}
	if failed != nil {
		return 0, 0, failed
	}
	return int(who.Pid), who.Uid, nil
}
