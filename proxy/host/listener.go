package host

import (
	"cmp"
	"io/fs"
	"math"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
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
	text := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	port, err := strconv.ParseUint(cmp.Or(u.Port(), text), 10, 16)
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

func (l *listener) fit(s Socket) int {
	if s.Port != l.port {
		return fitsNot
	}
	if len(l.addresses) == 0 {
		return fitsAnyFamily
	}
	best := fitsNot
	for _, a := range l.addresses {
		switch {
		case s.Address == a:
			best = fitsExactly
		case !s.Address.IsUnspecified():
		case s.Address.Is4() == a.Is4():
			best = max(best, fitsAnyAddress)
		case s.Address.Is6(): // it takes IPv4 connections, too, unless it was told not to
			best = max(best, fitsAnyFamily)
		}
	}
	return best
}

// listenQueue measures how many connections wait at listeners until they are
// accepted: the kernel queues them while a server with a fixed number of workers
// has none free. It is not for concurrent use.
type listenQueue struct {
	sockets *Sockets
	// of the listener that is looked at:
	listener listener
	inode    uint32
	best     int
	queued   int
	socket   uint32       // the inode of one that fits best
	cgroup   uint64       // cgroup in which it was made
	look     func(Socket) // its method, made once: no allocation a reading
}

func newListenQueue(sockets *Sockets) *listenQueue {
	q := &listenQueue{sockets: sockets}
	q.look = q.consider
	return q
}

// length returns how many connections wait there; not ok: no program listens there,
// or the kernel does not tell.
func (q *listenQueue) length(l listener) (queued int, ok bool) {
	q.listener, q.best, q.queued, q.socket, q.cgroup = l, fitsNot, 0, 0, 0
	if l.name == "" {
		ok = q.sockets.EachTCP(Listens, l.port, 0, q.look)
	} else {
		if q.inode, ok = inodeAt(l.name); !ok {
			return 0, false
		}
		ok = q.sockets.EachUnix(Listens, q.look)
	}
	return q.queued, ok && q.best > fitsNot
}

// consider adds a socket up if none before fits better. Several fit alike where
// workers share an address (SO_REUSEPORT).
func (q *listenQueue) consider(s Socket) {
	fit := fitsNot
	if q.listener.name == "" {
		fit = q.listener.fit(s)
	} else if s.File == q.inode && sameFile(s.Name, q.listener.name) {
		fit = fitsExactly
	}
	if fit == fitsNot || fit < q.best {
		return
	}
	if fit > q.best {
		q.best, q.queued, q.socket, q.cgroup = fit, 0, s.Inode, s.Cgroup
	}
	q.queued += int(min(s.Queued, 1<<20))
}

// sameFile compares the names without their directories, because a directory may be a symbolic
// link or missing. Inodes are unique in one file system only.
func sameFile(bound []byte, name string) bool {
	i := strings.LastIndexByte(string(bound), '/')
	return string(bound[i+1:]) == path.Base(name)
}

// meets reports whether what goes to the one may come to the other.
func (l *listener) meets(other listener) bool {
	if l.name != "" || other.name != "" {
		return l.name == other.name
	}
	if l.port != other.port || len(l.addresses) == 0 || len(other.addresses) == 0 {
		return l.port == other.port
	}
	for _, a := range l.addresses {
		for _, b := range other.addresses {
			if a == b || a.IsUnspecified() || b.IsUnspecified() {
				return true
			}
		}
	}
	return false
}

// inodeAt returns the inode of a file as the kernel reports it for a socket: 32 bits.
func inodeAt(name string) (uint32, bool) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, false
	}
	return uint32(inodeOfFile(info) & math.MaxUint32), true
}

func inodeOfFile(info fs.FileInfo) uint64 {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return s.Ino
}

// Listening is a TCP socket of this machine that listens, and a program that has it.
type Listening struct {
	Address netip.AddrPort
	Program string // as the kernel has it: at most 15 bytes, which the process itself may choose; empty: unknown
	Process int    // 0: unknown
}

// Listeners lists what listens, with ports only what listens there, once for each program that has
// it, as far as this user may see. A socket that init holds for a program counts as that program's.
// None: no program listens, or the kernel doesn't show it.
func Listeners(ports ...int) (all []Listening) {
	sockets, err := OpenSockets()
	if err != nil {
		return nil
	}
	defer sockets.Close()
	at := map[uint32]netip.AddrPort{}
	sockets.EachTCP(Listens, 0, 0, func(s Socket) {
		if len(ports) == 0 || slices.Contains(ports, int(s.Port)) {
			at[s.Inode] = netip.AddrPortFrom(s.Address, s.Port)
		}
	})
	if len(at) == 0 {
		return nil
	}
	const init = 1
	held := map[uint32]bool{}
	root := os.DirFS("/")
	pids, _ := numbered(root, "proc", mostProcesses)           // no /proc: none
	slices.SortFunc(pids, func(a, b int) int { return b - a }) // init comes last
	for _, pid := range pids {
		seen := map[uint32]bool{}
		_ = eachDescriptor(root, pid, func(_ int, link string) bool { // denied: unknown
			inode := socketOf(link)
			if address, is := at[inode]; is && !seen[inode] && (pid != init || !held[inode]) {
				p, _ := processAt(root, pid) // it may have ended
				all = append(all, Listening{address, string(p.Name), pid})
				seen[inode], held[inode] = true, true
			}
			return true
		})
	}
	for inode, address := range at {
		if !held[inode] {
			all = append(all, Listening{Address: address})
		}
	}
	slices.SortFunc(all, func(a, b Listening) int { return cmp.Or(a.Address.Compare(b.Address), a.Process-b.Process) })
	return all
}
