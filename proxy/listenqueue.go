package proxy

import (
	"math"
	"net/netip"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// listener is where a server on this machine listens: what a listening socket is
// recognised by.
type listener struct {
	name      string       // the path of a unix socket; empty: TCP
	addresses []netip.Addr // that lead there; none: every address does
	port      uint16
}

// listenerOf returns where a backend listens.
func listenerOf(u *url.URL) (l listener, ok bool) {
	if u.Scheme == "unix" {
		return listener{name: u.Path}, path.IsAbs(u.Path)
	}
	text := u.Port()
	switch {
	case text != "":
	case u.Scheme == "https":
		text = "443"
	default:
		text = "80"
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if u.Hostname() == "localhost" {
		l.addresses = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	} else if a, err := netip.ParseAddr(u.Hostname()); err == nil {
		l.addresses = []netip.Addr{a.Unmap()}
	} else {
		return listener{}, false
	}
	l.port = uint16(port)
	return l, err == nil
}

// listenerAt reads where php-fpm's pools listen: "/path", "port" or "address:port".
// A path that cannot be looked up as it stands is none.
func listenerAt(text string) (l listener, ok bool) {
	if strings.HasPrefix(text, "/") {
		return listener{name: path.Clean(text)}, true
	}
	if port, err := strconv.ParseUint(text, 10, 16); err == nil {
		return listener{port: uint16(port)}, port > 0
	}
	u, err := url.Parse("http://" + strings.Replace(text, "*:", "0.0.0.0:", 1))
	if err != nil || u.Port() == "" {
		return listener{}, false
	}
	if l, ok = listenerOf(u); ok && l.addresses[0].IsUnspecified() {
		l.addresses = nil
	}
	return l, ok
}

// How closely a TCP socket's address fits; connections go to the closest.
const (
	fitsNot = iota
	fitsAnyFamily
	fitsAnyAddress
	fitsExactly
)

func (l *listener) fit(s listening) int {
	if s.port != l.port {
		return fitsNot
	}
	if len(l.addresses) == 0 {
		return fitsAnyFamily
	}
	best := fitsNot
	for _, a := range l.addresses {
		switch {
		case s.address == a:
			best = fitsExactly
		case !s.address.IsUnspecified():
		case s.address.Is4() == a.Is4():
			best = max(best, fitsAnyAddress)
		case s.address.Is6(): // it takes IPv4 connections, too, unless it was told not to
			best = max(best, fitsAnyFamily)
		}
	}
	return best
}

// listenQueue measures how many connections wait at listeners until they are
// accepted: the kernel queues them while a server with a fixed number of workers
// has none free. It is not for concurrent use.
type listenQueue struct {
	diag *diagSocket
	// of the listener that is looked at:
	listener listener
	inode    uint32
	best     int
	queued   int
	look     func(listening) // its method, made once: no allocation a reading
}

func newListenQueue(diag *diagSocket) *listenQueue {
	q := &listenQueue{diag: diag}
	q.look = q.take
	return q
}

// length returns how many connections wait there; not ok: nobody listens there,
// or the kernel does not tell.
func (q *listenQueue) length(l listener) (queued int, ok bool) {
	q.listener, q.best, q.queued = l, fitsNot, 0
	if l.name == "" {
		ok = q.diag.inet(l.port, q.look)
	} else {
		if q.inode, ok = inodeOf(l.name); !ok {
			return 0, false
		}
		ok = q.diag.unix(q.look)
	}
	return q.queued, ok && q.best > fitsNot
}

// take adds a socket up if none before fits better. Several fit alike where
// workers share an address (SO_REUSEPORT).
func (q *listenQueue) take(s listening) {
	fit := fitsNot
	if q.listener.name == "" {
		fit = q.listener.fit(s)
	} else if s.inode == q.inode && sameFile(s.name, q.listener.name) {
		fit = fitsExactly
	}
	if fit == fitsNot || fit < q.best {
		return
	}
	if fit > q.best {
		q.best, q.queued = fit, 0
	}
	q.queued += int(min(s.queued, 1<<20))
}

// sameFile compares the names without their directories, of which one may be a
// symbolic link or missing; inodes are unique in one file system only.
func sameFile(bound []byte, name string) bool {
	i := strings.LastIndexByte(string(bound), '/')
	return string(bound[i+1:]) == path.Base(name)
}

// sameAs tells whether two listeners are one, so that its queue is counted once.
func (l *listener) sameAs(other listener) bool {
	return l.name == other.name && l.port == other.port
}

// inodeOf returns the inode of a file, as the kernel tells it of a socket.
func inodeOf(name string) (uint32, bool) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint32(s.Ino & math.MaxUint32), true // of a socket the kernel tells these 32 bits
}
