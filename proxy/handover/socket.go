package handover

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Socket is a listening socket that can be handed over.
type Socket struct {
	net.Listener        // *net.TCPListener or *net.UnixListener
	Address      string // configured address; empty: a supervisor owns the socket and its file
}

// LeaveFile sets whether the file of a unix socket stays when the socket is closed. Don't call it
// concurrently with Close.
func (s *Socket) LeaveFile(stays bool) {
	if u, ok := s.Listener.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(s.Address != "" && !stays)
	}
}

// Close closes all sockets.
func Close(sockets []Socket) {
	for _, s := range sockets {
		_ = s.Close() // only the descriptor matters
	}
}

// These are names of descriptors (LISTEN_FDNAMES). A supervisor uses other names. Names must not contain a
// colon, which separates names.
const (
	keptPrefix      = "kept-" // followed by the address of a listening socket
	supervised      = "supervised"
	predecessorName = "predecessor" // connection to the running process
	// formerAdmin precedes the address of the admin API's socket. An older release also hands over this socket,
	// but the current release opens it again instead.
	formerAdmin = "admin-"
)

func (s *Socket) name() string {
	if s.Address == "" {
		return supervised
	}
	return keptPrefix + url.QueryEscape(s.Address)
}

// named makes a Socket from a listener and the name of its descriptor.
func named(l net.Listener, name string) Socket {
	escaped, kept := strings.CutPrefix(name, keptPrefix)
	address, err := url.QueryUnescape(escaped)
	if !kept || err != nil {
		return Socket{Listener: l}
	}
	return Socket{Listener: l, Address: address}
}

// Inherited are the sockets and the connection that this process got when it was started.
type Inherited struct {
	Sockets []Socket     // files of unix sockets stay when the sockets are closed, unless LeaveFile changes that
	From    *Predecessor // connection to the running process; nil: no process runs
}

const (
	// firstInherited is the number of the first descriptor that is handed over.
	firstInherited = 3
	// mostInherited is a number of descriptors that no program exceeds. Larger numbers in the environment are errors.
	mostInherited = 4096
	// anyProcess is the value of LISTEN_PID if the process that hands over can't know the number of the next
	// one, because a third process starts the next one.
	anyProcess = "successor"
)

// Inherit returns the sockets and the connection that this process got when it was started. Programs that this
// process starts don't get them. After an error, Sockets has the sockets before the faulty one.
func Inherit() (in Inherited, err error) {
	names := inheritedNames()
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(name); err != nil {
			return in, err
		}
	}
	for i, name := range names {
		fd := firstInherited + i
		syscall.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), name)
		switch {
		case name == predecessorName:
			in.From, err = newPredecessor(f)
		case !strings.HasPrefix(name, formerAdmin):
			var l net.Listener
			if l, err = net.FileListener(f); err == nil { // the listener has its own copy of the descriptor
				in.Sockets = append(in.Sockets, named(l, name))
			}
		}
		_ = f.Close()
		if err != nil {
			return in, fmt.Errorf("descriptor %d, which was handed over (LISTEN_FDS), isn't a listening socket: %w", fd, err)
		}
	}
	return in, nil
}

// inheritedNames returns the name of each descriptor, or an empty string for one without a name.
func inheritedNames() []string {
	pid := os.Getenv("LISTEN_PID")
	n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if pid != strconv.Itoa(os.Getpid()) && pid != anyProcess || n <= 0 {
		return nil
	}
	names := make([]string, min(n, mostInherited))
	copy(names, strings.Split(os.Getenv("LISTEN_FDNAMES"), ":"))
	return names
}

// Close closes all sockets. If another process runs, it continues to serve.
func (in *Inherited) Close() {
	Close(in.Sockets)
	if in.From != nil {
		_ = in.From.conn.Close() // the other process notices this
	}
}

// withDescriptors calls use with the sockets' descriptors, and keeps the sockets open until use returns. It
// doesn't use net's method File, which makes a copy in blocking mode. The copy shares its flags with the
// socket, so the socket would block as well.
func withDescriptors(sockets []Socket, fds []uintptr, use func(fds []uintptr) error) error {
	if len(sockets) == 0 {
		return use(fds)
	}
	s, ok := sockets[0].Listener.(syscall.Conn)
	if !ok {
		return fmt.Errorf("a %T can't be handed over", sockets[0].Listener)
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = withDescriptors(sockets[1:], append(slices.Clip(fds), fd), use)
	}); err != nil {
		return err
	}
	return failed
}
