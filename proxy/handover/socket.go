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

// Socket is a listening socket that changes hands.
type Socket struct {
	net.Listener        // *net.TCPListener or *net.UnixListener
	Address      string // as the configuration has it; empty: it is a supervisor's, and so is its file
}

// LeaveFile says whether the file of a unix socket stays as the socket is closed. It must
// not be called at the same time as Close.
func (s *Socket) LeaveFile(stays bool) {
	if u, ok := s.Listener.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(s.Address != "" && !stays)
	}
}

// Close closes all of them.
func Close(sockets []Socket) {
	for _, s := range sockets {
		_ = s.Close() // only their descriptors matter
	}
}

// Names of descriptors (LISTEN_FDNAMES). A supervisor has others for its sockets. They must not
// have a colon, which separates names.
const (
	keptPrefix      = "kept-" // before the address of a socket that is served
	supervised      = "supervised"
	predecessorName = "predecessor" // the connection with the process that runs
	// formerAdmin is before the address of the admin API's socket, which a release of before hands
	// over as well. It is opened again instead.
	formerAdmin = "admin-"
)

func (s *Socket) name() string {
	if s.Address == "" {
		return supervised
	}
	return keptPrefix + url.QueryEscape(s.Address)
}

// named makes a Socket of a listener with such a name.
func named(l net.Listener, name string) Socket {
	escaped, kept := strings.CutPrefix(name, keptPrefix)
	address, err := url.QueryUnescape(escaped)
	if !kept || err != nil {
		return Socket{Listener: l}
	}
	return Socket{Listener: l, Address: address}
}

// Inherited is what this process was started with.
type Inherited struct {
	Sockets []Socket     // of which unix sockets' files stay as they are closed, until LeaveFile
	From    *Predecessor // the process that runs; nil: there is none
}

const (
	// firstInherited is the first descriptor that is handed over.
	firstInherited = 3
	// mostInherited is more than anybody hands over; an environment may say anything.
	mostInherited = 4096
	// anyProcess is in LISTEN_PID if another process starts the one that the sockets are for, and
	// so does not know its number.
	anyProcess = "successor"
)

// Inherit returns what this process was started with. What it starts itself gets none of that.
// After an error, Sockets are those that came before the one with the fault.
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
			if l, err = net.FileListener(f); err == nil { // it has a descriptor of its own
				in.Sockets = append(in.Sockets, named(l, name))
			}
		}
		_ = f.Close()
		if err != nil {
			return in, fmt.Errorf("descriptor %d, which was handed over (LISTEN_FDS), is no listening socket: %w", fd, err)
		}
	}
	return in, nil
}

// inheritedNames are those of the descriptors, one for each; empty: it has none.
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

// Close closes all sockets, and leaves everything to the process that runs, if one does.
func (in *Inherited) Close() {
	Close(in.Sockets)
	if in.From != nil {
		_ = in.From.conn.Close() // the other side sees its end
	}
}

// withDescriptors calls use while none of the sockets can be closed. Their descriptors
// are used as they are: those of net's File would block whoever accepts, as they share
// the flags.
func withDescriptors(sockets []Socket, fds []uintptr, use func(fds []uintptr) error) error {
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
		failed = withDescriptors(sockets[1:], append(slices.Clip(fds), fd), use)
	}); err != nil {
		return err
	}
	return failed
}
