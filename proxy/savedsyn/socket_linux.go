//go:build amd64 || arm64

package savedsyn

import (
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Keep has a listener keep the first packets of connections that it accepts from now on, until
// they are read or closed: some 100 bytes each, in the kernel.
func Keep(l net.Listener) error {
	return control(l, func(fd int) error {
		return os.NewSyscallError("setsockopt TCP_SAVE_SYN", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_SAVE_SYN, 1))
	})
}

// Read is the signature of a connection's first packet, which can be asked for once; empty:
// there is none, as the listener did not keep it, or the kernel answered it without memory (SYN
// cookies).
func Read(c net.Conn) (signature string) {
	_ = control(c, func(fd int) error {
		var packet [256]byte
		n := uint32(len(packet))
		// unix.GetsockoptString ends at the first zero, of which a header has many.
		_, _, e := syscall.Syscall6(syscall.SYS_GETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, unix.TCP_SAVED_SYN,
			uintptr(unsafe.Pointer(&packet)), uintptr(unsafe.Pointer(&n)), 0) //nolint:gosec // the kernel writes n bytes at most, and no other call of the kind takes bytes
		if e == 0 && int(n) <= len(packet) {
			signature = signatureOf(packet[:n])
		}
		return nil
	})
	return signature
}

// control calls with the descriptor of what has one.
func control(of any, with func(fd int) error) (err error) {
	s, ok := of.(syscall.Conn)
	if !ok {
		return nil // it is none of the kernel's
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = with(int(fd)) }); e != nil {
		return e
	}
	return err
}
