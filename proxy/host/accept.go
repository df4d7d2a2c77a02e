package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// forItself is how many descriptors the process needs however many clients it has:
	// listeners, logs, state and configuration as they are read and written, the sockets of
	// the admin API (about 16), Redis, gossip and Graphite, the kernel's answers about
	// sockets, the runtime's own; and the listeners of a second configuration while it takes
	// the place of the first. These are some 60. The rest is for connections that were closed
	// to make room: their descriptors go a moment later.
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
		return 0, fmt.Errorf("cannot read the limit of descriptors (RLIMIT_NOFILE): %w", err)
	}
	return l.Cur, nil
}

// ForClients is how many connections of clients may be open where there are so many
// descriptors, and how many files bodies may wait in: at least 1, at most 262,144.
//
// It is a third of what the process does not need for itself. A connection of HTTP/1.1 has
// one request under way at most, and that one connection to the backend; connections to
// the backend that wait for a request were needed for as many requests a second before
// (a new one is opened only where none waits). So another third is enough where every
// client is at the backend at once, as with WebSockets, which is the worst case. The last
// one is for the files in which bodies wait. They may need more, two for a request in the
// worst case, but do without: a body without a file streams (package spool). So what the
// process needs for itself, the admin socket above all, is always left.
func ForClients(limit uint64) int {
	n := limit / 8 // so few that all of it is a compromise
	if limit > forItself {
		n = max(n, (limit-forItself)/3)
	}
	return int(min(max(n, 1), most))
}

// How long Accept waits before it tries again: twice as long each time.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// Patient returns a listener for clients. Where there is no descriptor or no memory for
// a connection, its Accept tries again until there is, from 5 ms to 1 s apart; the
// connections wait in the kernel in the meantime. Before each pause it calls full with the error:
// to tell of it, and to close something. If it is closed during a pause, Accept returns after that.
func Patient(l net.Listener, full func(error)) net.Listener { return &patient{l, full} }

type patient struct {
	net.Listener
	full func(error)
}

func (l *patient) Accept() (net.Conn, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		c, err := l.Listener.Accept()
		if err == nil || !isFull(err) {
			return c, err
		}
		l.full(err)
		time.Sleep(pause)
	}
}

// isFull reports whether accepting failed for a lack that passes.
func isFull(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// socketMode lets only a unix socket's owner and group connect: programs that connect there are
// trusted.
const socketMode = 0o660

// ListenUnix opens a unix socket. It makes the directory if that is missing, and replaces a
// socket file that a dead process left behind, but never one on which a process answers, nor
// another kind of file. Closing the listener removes the file.
func ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	// The socket's own mode decides who may connect.
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

// setMode gives a socket's file its mode. It does not follow a symbolic link, which a user who
// can write to the directory could have put in its place.
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

// removeStaleSocket removes the socket file at path if no process answers there.
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
