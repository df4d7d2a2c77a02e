package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Seat is the other end of a connection: the process that serves it now, and the process's descriptor of the
// socket.
type Seat struct {
	PID   int
	fd    int
	inode uint32
}

// Reasons why a process is not found.
var (
	// ErrRight means that this process isn't allowed to see the descriptors of another user's processes.
	ErrRight = errors.New("this process isn't allowed to see which process serves a connection: that needs CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, or workers that report (cost.socket)")
	// ErrElsewhere means that the other end of the connection is on another machine, or in another
	// network namespace, such as a container's.
	ErrElsewhere = errors.New("the backend's end of the connection is not in this network namespace")
	// ErrHidden means that no visible process has the connection, as in a container that sees only
	// its own processes.
	ErrHidden = errors.New("no visible process serves the connection; it may be in another PID namespace")
	// errWaits means that no process has accepted the connection yet, so none works on it.
	errWaits = errors.New("the connection is not accepted yet")
	// errLater means that the connection is closed, or that the last search for it failed a moment ago.
	errLater = errors.New("the connection is closed, or the last search failed a moment ago")
	// errSpent means that the searches have used all their CPU time for now.
	errSpent = errors.New("the searches have used up their CPU time")
)

// Finder finds the process at the other end of a connection to a backend on this machine. Only one
// goroutine may use it.
type Finder struct {
	sockets *Sockets
	root    fs.FS
	backend listener

	listening []uint32  // inodes of the backend's listening sockets
	group     []int     // processes that have such a socket
	conn      int       // descriptor of the last connection that was found
	next      time.Time // earliest time of the next search for the group
	pause     time.Duration
}

// Pause between two searches through all processes of the machine: leastPause after a successful search, and
// twice the last pause after an unsuccessful one.
const (
	leastPause = 500 * time.Millisecond
	mostPause  = time.Minute
)

// OpenFinder makes a Finder for the backend at that URL.
func OpenFinder(backend *url.URL) (*Finder, error) {
	d, err := OpenSockets()
	if err != nil {
		return nil, err
	}
	l, ok := listenerOf(backend)
	if !ok {
		d.Close()
		return nil, fmt.Errorf("%s isn't an address of this machine", backend)
	}
	return &Finder{sockets: d, root: os.DirFS("/"), backend: l, pause: leastPause}, nil
}

// Close closes the Finder's netlink socket.
func (f *Finder) Close() { f.sockets.Close() }

// Find returns the process at the other end of a connection. The error says why there is none. After
// ErrRight, ErrElsewhere or ErrHidden, another search is unlikely to help; after other errors, it may.
func (f *Finder) Find(now time.Time, c net.Conn) (Seat, error) {
	if len(f.group) == 0 && now.Before(f.next) {
		return Seat{}, errLater
	}
	inode, err := f.peer(c)
	if errors.Is(err, ErrElsewhere) {
		f.later(now)
	}
	if err != nil {
		return Seat{}, err
	}
	pid, fd := f.holder(inode)
	if pid == 0 {
		if now.Before(f.next) {
			return Seat{}, errLater
		}
		err := f.regroup()
		if pid, fd = f.holder(inode); pid == 0 {
			if again, _ := f.peer(c); again != inode {
				return Seat{}, errLater // the connection was closed in the meantime
			}
			f.later(now)
			return Seat{}, err
		}
		f.pause = leastPause
		f.next = now.Add(f.pause)
	}
	f.conn = fd
	return Seat{PID: pid, fd: fd, inode: inode}, nil
}

// later doubles the pause until the next search.
func (f *Finder) later(now time.Time) {
	f.pause = min(2*f.pause, mostPause)
	f.next = now.Add(f.pause)
}

// holds reports whether the connection still ends at that process and descriptor.
func (f *Finder) holds(s *Seat) bool { return socketOf(linkOf(f.root, s.PID, s.fd)) == s.inode }

// peer returns the inode of the socket at the connection's other end.
func (f *Finder) peer(c net.Conn) (inode uint32, err error) {
	local, remote := addrPort(c.LocalAddr()), addrPort(c.RemoteAddr())
	if !local.IsValid() || !remote.IsValid() {
		return f.unixPeer(inodeOf(c))
	}
	peer := f.sockets.TCP(remote, local)
	if peer.Inode != 0 {
		return peer.Inode, nil
	}
	switch own := f.sockets.TCP(local, remote); {
	case own.State != Established:
		return 0, errLater // this process has closed its end
	case peer.State == Established || peer.State == Handshake:
		return 0, errWaits
	case peer.State != 0:
		return 0, errLater // the backend has closed the connection, but a part of its answer isn't read yet
	}
	return 0, ErrElsewhere
}

func (f *Finder) unixPeer(own uint32) (inode uint32, err error) {
	if own == 0 {
		return 0, errLater
	}
	switch s := f.sockets.Unix(own); {
	case s.Peer != 0:
		return s.Peer, nil
	case s.State == Established:
		return 0, errWaits
	}
	return 0, errLater
}

func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// inodeOf returns the inode of a socket of this process; 0: unknown.
func inodeOf(c net.Conn) (inode uint32) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		link, _ := os.Readlink("/proc/self/fd/" + strconv.FormatUint(uint64(fd), 10))
		inode = socketOf(link)
	})
	return inode
}

// holder looks for a socket among the group's descriptors, and checks the last known descriptor first.
func (f *Finder) holder(inode uint32) (pid, fd int) {
	for _, pid := range f.group {
		if socketOf(linkOf(f.root, pid, f.conn)) == inode {
			return pid, f.conn
		}
	}
	for _, pid := range f.group {
		if fd, _ := descriptorOf(f.root, pid, inode); fd >= 0 {
			return pid, fd
		}
	}
	return 0, 0
}

// regroup looks for the processes that have the listening socket. It always returns an error, which says why
// the group may lack a process that serves a connection.
func (f *Finder) regroup() error {
	f.listening = f.listening[:0]
	each := f.sockets.EachUnix
	if f.backend.name == "" {
		each = func(in State, do func(Socket)) bool { return f.sockets.EachTCP(in, f.backend.port, 0, do) }
	}
	each(Listens, func(s Socket) {
		if s.Port == f.backend.port && string(s.Name) == f.backend.name {
			f.listening = append(f.listening, s.Inode)
		}
	})
	f.group = f.group[:0]
	denied := false
	pids, _ := numbered(f.root, "proc", mostProcesses) // without /proc, no process is found
	for _, pid := range pids {
		err := eachDescriptor(f.root, pid, func(_ int, link string) bool {
			if slices.Contains(f.listening, socketOf(link)) {
				f.group = append(f.group, pid)
				return false
			}
			return true
		})
		denied = denied || errors.Is(err, fs.ErrPermission)
	}
	if denied {
		return ErrRight
	}
	return ErrHidden
}
