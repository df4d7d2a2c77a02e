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
	// forItself is how many descriptors the process keeps for itself, however many clients it has. It needs
	// about 60: for listeners, logs, the state and configuration files, the admin API's sockets (about 16),
	// Redis, gossip, Graphite, the netlink socket, the Go runtime, and the listeners of a new configuration
	// during a reload. The rest is a reserve for connections that were closed to make room, because their
	// descriptors are freed only a moment later.
	forItself = 128
	// most is the largest number of client connections. Some systems set no limit (containers often
	// have 2^30), but no host has more clients than this.
	most = 1 << 18
)

// Limit returns how many descriptors the process may have open: the soft limit of RLIMIT_NOFILE,
// which Go raises to the hard limit when a program starts.
func Limit() (uint64, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("can't read the limit of descriptors (RLIMIT_NOFILE): %w", err)
	}
	return l.Cur, nil
}

// ForClients returns how many client connections may be open if the process has limit descriptors, and how
// many files may hold request and response bodies. It is at least 1 and at most 262,144.
//
// Clients get a third of the descriptors that the process doesn't need for itself. An HTTP/1.1 connection has
// at most one running request, and that request has one connection to the backend. The pool opens a new backend
// connection only when no idle one is left. Another third is therefore enough for the backend, even if all
// clients have a running request at once, as with WebSockets. The last third is for the files that hold bodies.
// In the worst case a request needs two files, but if no file is left, the request's body streams instead
// (package spool). Some descriptors are therefore always left for the process itself, above all for the admin
// socket.
func ForClients(limit uint64) int {
	n := limit / 8 // with so few descriptors no division works well, so clients get an eighth
	if limit > forItself {
		n = max(n, (limit-forItself)/3)
	}
	return int(min(max(n, 1), most))
}

// Pauses of Accept between two attempts. Each pause is twice as long as the previous one.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// Patient returns a listener for clients. If no descriptor or memory is left for a connection, its Accept tries
// again, after pauses from 5 ms to 1 s, while the connections wait in the kernel. Before each pause, Accept
// calls full with the error, so the caller can log it and close something. If the listener is closed during a
// pause, Accept returns after that pause.
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

// isFull reports whether Accept failed for lack of a resource that may be available again soon.
func isFull(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// socketMode lets only the socket's owner and group connect, because programs that connect there are trusted.
const socketMode = 0o660

// ListenUnix opens a unix socket. It makes the directory if needed, and replaces a socket file whose process no
// longer exists. It never replaces a socket on which a process answers, or a file that isn't a socket. Closing
// the listener removes the file.
func ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	// The socket's own mode decides who may connect.
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // see above
		return nil, err
	}
	if err := removeStaleSocket(path, "unix"); err != nil {
		return nil, err
	}
	// Linux creates the file with the mode that the socket has at that moment, minus the umask. The file is
	// therefore never open to more users, not even briefly. If the umask removes bits, setMode adds them again.
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

// setMode gives a socket's file its mode. It doesn't follow symbolic links, because a user who can
// write to the directory could have put one there.
func setMode(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("another program has replaced the socket %s", path)
	}
	if info.Mode().Perm() == socketMode {
		return nil
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	// If a user replaces the file with a link now, root.Chmod doesn't follow it out of the directory.
	return errors.Join(root.Chmod(filepath.Base(path), socketMode), root.Close())
}

// removeStaleSocket removes the socket file at path if no process answers there. A datagram socket is
// replaced even if a process reads it: that process is the proxy that this one replaces.
func removeStaleSocket(path, network string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket; it was not removed", path)
	}
	c, err := net.DialTimeout(network, path, time.Second)
	if err == nil {
		_ = c.Close()
		if network == "unix" {
			return fmt.Errorf("another process already answers on %s", path)
		}
	} else if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("can't determine whether another process answers on %s: %w", path, err)
	}
	return os.Remove(path)
}
