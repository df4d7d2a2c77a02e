package handover

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Socket is a listening socket that changes hands.
type Socket struct {
	net.Listener // *net.TCPListener or *net.UnixListener

	Role    string // what it is for; this package does not care
	Address string // as its owner's configuration has it
	// Owned says that the file of a unix socket goes with the socket. It does not where
	// somebody else made it, systemd for one.
	Owned bool
}

// LeaveFile says whether the file of a unix socket stays as the socket is closed. It
// must not be called at the same time as Close.
func (s *Socket) LeaveFile(stays bool) {
	if u, ok := s.Listener.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(s.Owned && !stays)
	}
}

// own has the kernel name this process to whoever connects from now on (SO_PEERCRED):
// it names the one that called listen last, and that one may have ended long ago.
func (s *Socket) own() {
	s.LeaveFile(false)
	u, ok := s.Listener.(*net.UnixListener)
	if !ok {
		return
	}
	raw, err := u.SyscallConn()
	if err == nil { // without it, messages name another process
		_ = raw.Control(func(fd uintptr) { _ = syscall.Listen(int(fd), longestQueue) })
	}
}

// longestQueue is more than the kernel's own bound of connections that wait, which holds then.
const longestQueue = 1<<16 - 1

// sendSockets writes a line that descriptors go with.
func sendSockets(conn *net.UnixConn, text []byte, sockets []Socket) error {
	if len(sockets) > mostSockets {
		return fmt.Errorf("%d sockets cannot be handed over at once; at most %d", len(sockets), mostSockets)
	}
	return withDescriptors(sockets, nil, func(fds []int) error {
		n, _, err := conn.WriteMsgUnix(text, syscall.UnixRights(fds...), nil)
		if err == nil && n < len(text) { // the descriptors have gone with the first byte
			_, err = conn.Write(text[n:])
		}
		return err
	})
}

// withDescriptors calls use while none of the sockets can be closed. Their descriptors
// are used as they are: those of net's File would block whoever accepts, as they share
// the flags.
func withDescriptors(sockets []Socket, fds []int, use func(fds []int) error) error {
	if len(sockets) == 0 {
		return use(fds)
	}
	s, ok := sockets[0].Listener.(syscall.Conn)
	if !ok {
		return fmt.Errorf("a %T cannot be handed over", sockets[0].Listener)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = withDescriptors(sockets[1:], append(fds, int(fd)), use)
	}); err != nil {
		return err
	}
	return failed
}

// receiveSockets reads up to the end of a line that descriptors go with. It returns what
// was read beyond that.
func receiveSockets(conn *net.UnixConn) (text, rest []byte, fds []int, err error) {
	defer func() {
		if err != nil {
			closeAll(fds)
			fds = nil
		}
	}()
	buffer, control := make([]byte, longestLine), make([]byte, syscall.CmsgSpace(4*mostSockets))
	end := -1
	for n := 0; end < 0; {
		if n == len(buffer) {
			return nil, nil, fds, fmt.Errorf("a message of more than %d bytes", longestLine)
		}
		got, controls, flags, _, err := conn.ReadMsgUnix(buffer[n:], control)
		if err != nil {
			return nil, nil, fds, err
		}
		more, err := descriptors(control[:controls])
		fds = append(fds, more...)
		if err != nil {
			return nil, nil, fds, err
		}
		if flags&syscall.MSG_CTRUNC != 0 {
			return nil, nil, fds, fmt.Errorf("not all sockets arrived: too many descriptors are open, or more than %d came", mostSockets)
		}
		n += got
		end = bytes.IndexByte(buffer[:n], '\n')
		rest = buffer[end+1 : n]
	}
	return buffer[:end+1], rest, fds, nil
}

func descriptors(control []byte) (fds []int, err error) {
	if len(control) == 0 {
		return nil, nil
	}
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		more, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return fds, err
		}
		fds = append(fds, more...)
	}
	return fds, nil
}

// listeners makes listeners of descriptors, all or none, and owns them in any case.
func listeners(fds []int, list []listed) (sockets []Socket, err error) {
	if len(fds) != len(list) {
		closeAll(fds)
		return nil, fmt.Errorf("%d descriptors came for %d sockets", len(fds), len(list))
	}
	for i, fd := range fds {
		its := list[i] //nolint:gosec // they are as many
		f := os.NewFile(uintptr(fd), its.Address)
		l, err := net.FileListener(f) // it has a descriptor of its own
		_ = f.Close()
		if err != nil {
			closeAll(fds[i+1:])
			Close(sockets)
			return nil, fmt.Errorf("what was handed over as %s does not listen: %w", its.Address, err)
		}
		s := Socket{Listener: l, Role: its.Role, Address: its.Address, Owned: its.Owned}
		s.LeaveFile(true) // until it is ours
		sockets = append(sockets, s)
	}
	return sockets, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}

// Close closes all of them.
func Close(sockets []Socket) {
	for _, s := range sockets {
		_ = s.Close() // only their descriptors matter
	}
}
