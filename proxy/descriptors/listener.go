package descriptors

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

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
