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

// door is where a server on this machine listens: what a listening socket is
// recognised by.
type door struct {
	name      string       // the path of a unix socket; empty: TCP
	addresses []netip.Addr // that lead there; none: every address does
	port      uint16
}

// doorOf returns where a backend listens.
func doorOf(u *url.URL) (d door, ok bool) {
	if u.Scheme == "unix" {
		return door{name: u.Path}, path.IsAbs(u.Path)
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
		d.addresses = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	} else if a, err := netip.ParseAddr(u.Hostname()); err == nil {
		d.addresses = []netip.Addr{a.Unmap()}
	} else {
		return door{}, false
	}
	d.port = uint16(port)
	return d, err == nil
}

// doorAt reads where php-fpm's pools listen: "/path", "port" or "address:port".
// A path that cannot be looked up as it stands is none.
func doorAt(text string) (d door, ok bool) {
	if strings.HasPrefix(text, "/") {
		return door{name: path.Clean(text)}, true
	}
	if port, err := strconv.ParseUint(text, 10, 16); err == nil {
		return door{port: uint16(port)}, port > 0
	}
	u, err := url.Parse("http://" + strings.Replace(text, "*:", "0.0.0.0:", 1))
	if err != nil || u.Port() == "" {
		return door{}, false
	}
	if d, ok = doorOf(u); ok && d.addresses[0].IsUnspecified() {
		d.addresses = nil
	}
	return d, ok
}

// How closely a TCP socket's address fits; connections go to the closest.
const (
	fitsNot = iota
	fitsAnyFamily
	fitsAnyAddress
	fitsExactly
)

func (d *door) fit(s listening) int {
	if s.port != d.port {
		return fitsNot
	}
	if len(d.addresses) == 0 {
		return fitsAnyFamily
	}
	best := fitsNot
	for _, a := range d.addresses {
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

// listenQueue measures how many connections wait at doors until they are
// accepted: the kernel queues them while a server with a fixed number of workers
// has none free. It is not for concurrent use.
type listenQueue struct {
	diag *diagSocket
	// of the door that is looked at:
	door   door
	inode  uint32
	best   int
	queued int
	look   func(listening) // its method, made once: no allocation a reading
}

func newListenQueue(diag *diagSocket) *listenQueue {
	q := &listenQueue{diag: diag}
	q.look = q.take
	return q
}

// length returns how many connections wait there; not ok: nobody listens there,
// or the kernel does not tell.
func (q *listenQueue) length(d door) (queued int, ok bool) {
	q.door, q.best, q.queued = d, fitsNot, 0
	if d.name == "" {
		ok = q.diag.inet(d.port, q.look)
	} else {
		if q.inode, ok = inodeOf(d.name); !ok {
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
	if q.door.name == "" {
		fit = q.door.fit(s)
	} else if s.inode == q.inode && sameFile(s.name, q.door.name) {
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

// sameAs tells whether two doors are one, so that its queue is counted once.
func (d *door) sameAs(other door) bool {
	return d.name == other.name && d.port == other.port
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
