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

// Seat is where a connection ends: a process, by the number that it has now, and its
// descriptor of it.
type Seat struct {
	PID   int
	fd    int
	inode uint32
}

// Why a process is not found.
var (
	// ErrRight: the descriptors of another user's processes may not be seen.
	ErrRight = errors.New("the right is missing to see which process serves a connection: it takes CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, or workers that report (cost.socket)")
	// ErrElsewhere: the other end of the connection is on another machine, or in another
	// network namespace, as a container's is.
	ErrElsewhere = errors.New("the backend's end of the connection is not in this network namespace")
	// ErrHidden: no process is seen to have it, as in a container that sees only its own processes.
	ErrHidden = errors.New("no process is seen that serves the connection; it may be in another PID namespace")
	// errWaits: no process has accepted the connection yet, so none works on it.
	errWaits = errors.New("the connection is not accepted yet")
	// errLater: it is closed, or was looked for in vain a moment ago.
	errLater = errors.New("later")
	// errSpent: looking has taken what it may of the CPUs.
	errSpent = errors.New("enough was looked for")
)

// Finder finds the process at the other end of a connection to a backend of this machine.
// It is for one goroutine.
type Finder struct {
	sockets *Sockets
	root    fs.FS
	backend listener

	listening []uint32  // the listening sockets
	group     []int     // processes that hold one
	conn      int       // the descriptor that a connection had last
	listener  int       // the one that the listening socket had last
	next      time.Time // when the group may be looked for again
	pause     time.Duration

	open    map[uint32]bool // the backend's connections
	counted time.Time       // when these were asked for
	held    []uint32        // sockets of the process that is looked at
}

// How soon the processes of all of the machine are looked through again: after leastPause if
// that helped, and twice as late each time that it did not.
const (
	leastPause = 500 * time.Millisecond
	mostPause  = time.Minute
)

// OpenFinder makes one for the backend of that URL.
func OpenFinder(backend *url.URL) (*Finder, error) {
	d, err := OpenSockets()
	if err != nil {
		return nil, err
	}
	l, ok := listenerOf(backend)
	if !ok {
		d.Close()
		return nil, fmt.Errorf("%s is no address of this machine", backend)
	}
	return &Finder{sockets: d, root: os.DirFS("/"), backend: l, pause: leastPause}, nil
}

// Close closes what it asks by.
func (f *Finder) Close() { f.sockets.Close() }

// Find returns the process at the other end. The error says why there is none: ErrRight,
// ErrElsewhere and ErrHidden are likely to stay; others are worth another try soon.
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
				return Seat{}, errLater // it was closed in the meantime
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

// later has it be looked again twice as late as the last time.
func (f *Finder) later(now time.Time) {
	f.pause = min(2*f.pause, mostPause)
	f.next = now.Add(f.pause)
}

// holds reports whether the connection still ends there.
func (f *Finder) holds(s *Seat) bool { return socketOf(linkOf(f.root, s.PID, s.fd)) == s.inode }

// many reports whether the process serves several connections at once, or could.
func (f *Finder) many(now time.Time, s *Seat) bool {
	return servesMany(f.root, s.PID, s.fd) || f.several(now, s.PID)
}

// several reports whether a process has several of the backend's connections open. A process
// that serves one request at a time accepts the next one when it is done; an event loop that
// uses poll(2) has no descriptor that shows it.
func (f *Finder) several(now time.Time, pid int) bool {
	f.held = f.held[:0]
	_ = eachDescriptor(f.root, pid, func(_ int, link string) bool {
		if inode := socketOf(link); inode != 0 && !slices.Contains(f.listening, inode) && !slices.Contains(f.held, inode) {
			f.held = append(f.held, inode)
		}
		return true
	})
	if len(f.held) < 2 {
		return false // which is so of most workers: the kernel need not go through all connections
	}
	f.count(now)
	n := 0
	for _, inode := range f.held {
		if f.open[inode] {
			n++
		}
	}
	return n > 1
}

// count asks for the backend's connections, once for all that ask at the same time.
func (f *Finder) count(now time.Time) {
	if f.open != nil && now.Equal(f.counted) {
		return
	}
	if f.open == nil {
		f.open = make(map[uint32]bool)
	}
	f.counted = now
	clear(f.open)
	f.each(Established, func(s Socket) { f.open[s.Inode] = true })
	delete(f.open, 0) // not accepted yet
}

// each calls do for the backend's sockets in a state.
func (f *Finder) each(in State, do func(Socket)) {
	if f.backend.name == "" {
		f.sockets.EachTCP(in, f.backend.port, 0, func(s Socket) {
			if s.Port == f.backend.port {
				do(s)
			}
		})
		return
	}
	f.sockets.EachUnix(in, func(s Socket) {
		if string(s.Name) == f.backend.name {
			do(s)
		}
	})
}

// peer is the inode of the connection's other end.
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
		return 0, errLater // it is closed
	case peer.State == Established || peer.State == Handshake:
		return 0, errWaits
	case peer.State != 0:
		return 0, errLater // the backend has closed it, and has yet to send what it had to say
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

// inodeOf is that of a socket of this process; 0: it is not known.
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

// holder looks for a socket among the group: first where such a one was the last time.
func (f *Finder) holder(inode uint32) (pid, fd int) {
	for i, pid := range f.group {
		if socketOf(linkOf(f.root, pid, f.conn)) == inode {
			f.found(i)
			return pid, f.conn
		}
	}
	for i, pid := range f.group {
		if fd, _ := descriptorOf(f.root, pid, inode); fd >= 0 {
			f.found(i)
			return pid, fd
		}
	}
	return 0, 0
}

// found has the process be looked at first the next time.
func (f *Finder) found(i int) {
	pid := f.group[i]
	copy(f.group[1:i+1], f.group[:i])
	f.group[0] = pid
}

// regroup looks for the processes that hold the listening socket. The error is never nil: it
// says why a process may be none of them that nonetheless serves a connection.
func (f *Finder) regroup() error {
	f.listening = f.listening[:0]
	f.each(Listens, func(s Socket) { f.listening = append(f.listening, s.Inode) })
	f.group = f.group[:0]
	denied := false
	pids, _ := numbered(f.root, "proc", mostProcesses) // no /proc: none
	for _, pid := range pids {
		if slices.Contains(f.listening, socketOf(linkOf(f.root, pid, f.listener))) {
			f.group = append(f.group, pid)
			continue
		}
		err := eachDescriptor(f.root, pid, func(fd int, link string) bool {
			if !slices.Contains(f.listening, socketOf(link)) {
				return true
			}
			f.group, f.listener = append(f.group, pid), fd
			return false
		})
		denied = denied || errors.Is(err, fs.ErrPermission)
	}
	if denied {
		return ErrRight
	}
	return ErrHidden
}
