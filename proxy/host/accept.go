package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// forItself is how many descriptors the process needs however many clients it has:
	// listeners, logs, state and configuration as they are read and written, the sockets of
	// the admin API (about 16), Redis, gossip and Graphite, the kernel's answers about
	// sockets, the runtime's own, the Reserve; and the listeners of a second configuration
	// while it takes the place of the first. These are some 60. The rest is for connections
	// that were closed to make room: their descriptors go a moment later.
	forItself = 128
	// most is how many connections of clients there are at most. Some systems set no limit
	// (containers often have 2^30); more than these no host has clients for.
	most = 1 << 18
)

// Limit is how many descriptors the process may have open: the soft limit of
// RLIMIT_NOFILE, which Go raises to the hard one as a program starts.
func Limit() (uint64, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("how many descriptors there may be (RLIMIT_NOFILE) is unknown: %w", err)
	}
	return uint64(l.Cur), nil //nolint:unconvert // it has a sign on some systems
}

// ForClients is how many connections of clients may be open where there are so many
// descriptors: at least 1, at most 262,144.
//
// It is half of what the process does not need for itself. A connection of HTTP/1.1 has
// one request under way at most, and that one connection to the backend; connections to
// the backend that wait for a request were needed for as many requests a second before
// (a new one is opened only where none waits). So the other half is enough where every
// client is at the backend at once, as with WebSockets, which is the worst case. It is
// usually far from it, and what is left of the half is for the files in which bodies
// wait. They may need more, two for a request in the worst case, but do without: a
// body without a file streams (package spool).
func ForClients(limit uint64) int {
	n := limit / 8 // so few that all of it is a compromise
	if limit > forItself {
		n = max(n, (limit-forItself)/2)
	}
	return int(min(max(n, 1), most))
}

// spares is how many descriptors a Reserve has: for so many connections of the admin
// socket at the same time.
const spares = 4

// Reserve keeps spare descriptors open, to be given up when there is no other. All
// methods may be called concurrently.
type Reserve struct {
	short atomic.Bool // some are given up

	mu     sync.Mutex
	files  []*os.File // of the null device
	closed bool
}

// NewReserve opens the spare descriptors.
func NewReserve() (*Reserve, error) {
	r := &Reserve{}
	if err := r.fill(); err != nil {
		return nil, errors.Join(fmt.Errorf("keep descriptors for the admin socket: %w", err), r.Close())
	}
	return r, nil
}

// giveUp closes a spare descriptor, for the next that is opened; false: there is none.
func (r *Reserve) giveUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.files) - 1
	if last < 0 {
		return false
	}
	r.short.Store(true)
	_ = r.files[last].Close() // nothing was written
	r.files = r.files[:last]
	return true
}

// takeBack opens again what was given up, as far as there are descriptors. It costs
// next to nothing if nothing was.
func (r *Reserve) takeBack() {
	if r.short.Load() {
		_ = r.fill() // the next one tries again
	}
}

func (r *Reserve) fill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.files) < spares && !r.closed {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		r.files = append(r.files, f)
	}
	r.short.Store(false)
	return nil
}

// Close gives up the spare descriptors for good.
func (r *Reserve) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	r.files, r.closed = nil, true
	return err
}

// How long Accept waits before it tries again: twice as long each time.
const (
	firstPause = 5 * time.Millisecond
	clientWait = time.Second
	adminWait  = 100 * time.Millisecond
)

// Clients returns a listener for clients. Where there is no descriptor or no memory for
// a connection, its Accept tries again until there is, from 5 ms to 1 s apart; the
// connections wait in the kernel meanwhile. Before each pause it calls full, unless that
// is nil, with the error: to tell of it, and to close something. What the admin socket
// has used of the reserve is replaced before clients get any more.
func (r *Reserve) Clients(l net.Listener, full func(error)) net.Listener {
	return &clients{patient: newPatient(l), reserve: r, full: full}
}

// Admin returns a listener for the admin socket. Where there is no descriptor for a
// connection, its Accept gives up one of the reserve for it, and without any tries
// again, from 5 to 100 ms apart.
func (r *Reserve) Admin(l net.Listener) net.Listener {
	return &admin{patient: newPatient(l), reserve: r}
}

type clients struct {
	*patient
	reserve *Reserve
	full    func(error)
}

func (l *clients) Accept() (net.Conn, error) {
	for pause := firstPause; ; pause = min(2*pause, clientWait) {
		l.reserve.takeBack()
		c, err := l.Listener.Accept()
		if err == nil || !isFull(err) {
			return c, err
		}
		if l.full != nil {
			l.full(err)
		}
		if !l.wait(pause) {
			return nil, net.ErrClosed
		}
	}
}

type admin struct {
	*patient
	reserve *Reserve
}

func (l *admin) Accept() (net.Conn, error) {
	for pause := firstPause; ; pause = min(2*pause, adminWait) {
		c, err := l.Listener.Accept()
		if err == nil {
			return &adminConn{Conn: c, reserve: l.reserve}, nil
		}
		if !isFull(err) {
			return nil, err
		}
		// Linux looks for a descriptor before it looks for a connection: most often
		// nobody is there, and a descriptor that is given up would go to another.
		if l.hasConnection() {
			if l.reserve.giveUp() {
				continue
			}
		} else {
			l.reserve.takeBack()
		}
		if !l.wait(pause) {
			return nil, net.ErrClosed
		}
	}
}

// adminConn gives its descriptor to the reserve.
type adminConn struct {
	net.Conn
	reserve *Reserve
}

// NetConn returns the connection itself, to pass descriptors over it.
func (c *adminConn) NetConn() net.Conn { return c.Conn }

func (c *adminConn) Close() error {
	err := c.Conn.Close()
	c.reserve.takeBack()
	return err
}

// patient is a listener that can wait.
type patient struct {
	net.Listener
	once   sync.Once
	closed chan struct{}
}

func newPatient(l net.Listener) *patient { return &patient{Listener: l, closed: make(chan struct{})} }

// wait returns false if the listener is closed meanwhile.
func (l *patient) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.closed:
		return false
	}
}

func (l *patient) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// hasConnection tells whether a connection waits to be accepted; true if that is unknown.
func (l *patient) hasConnection() bool {
	socket, ok := l.Listener.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	n := 0
	if raw.Control(func(fd uintptr) {
		for err = unix.EINTR; errors.Is(err, unix.EINTR); { // also without a wait, when the runtime has sent a signal
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) //nolint:gosec // descriptors are small
		}
	}) != nil {
		return true
	}
	return err != nil || n > 0
}

// isFull tells whether accepting failed for a lack that passes.
func isFull(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// socketMode lets a unix socket's owner and group connect, nobody else: who
// connects there is trusted.
const socketMode = 0o660

// ListenUnix opens a unix socket. It makes the directory if that is missing,
// and takes the place of a socket file that a dead process left behind, never
// of one that somebody answers on nor of another kind of file. Closing the
// listener removes the file.
func ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	// Who may connect is for the socket's own mode to say.
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // see above
		return nil, err
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	// Linux gives the file the mode that the socket has when it is bound, less
	// the umask: so it is never open to more people, not even for a moment.
	// Where that is unknown, or not enough, setMode has to do.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), socketMode) })
	}}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := setMode(path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// setMode gives a socket's file its mode. It does not follow a symbolic link, which
// somebody who may write in the directory could have put in its place.
func setMode(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is not the socket any more that was opened there", path)
	}
	if info.Mode().Perm() == socketMode {
		return nil
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	// A link that is put there now leads to nothing outside of the directory.
	return errors.Join(root.Chmod(filepath.Base(path), socketMode), root.Close())
}

// removeStaleSocket removes the socket file at path if nobody answers there.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is not a socket: not removed", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("another process already answers on %s", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("whether another process answers on %s is unknown: %w", path, err)
	}
	return os.Remove(path)
}
