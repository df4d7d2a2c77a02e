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

// listener is the address at which a server on this machine listens.
type listener struct {
	name      string       // path of a unix socket; empty: TCP
	addresses []netip.Addr // addresses of the host, one of which the server uses; none: it listens at all addresses
	port      uint16
}

// listenerOf returns the address of a backend's URL.
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

// listenerAt parses an address of php-fpm's listen: "/path", "port" or "address:port". It accepts no
// relative paths.
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

// These constants say how closely a TCP socket's address fits. The kernel passes connections to the closest fit.
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
		case s.Address.Is6(): // an IPv6 socket also accepts IPv4, unless the server has set IPV6_V6ONLY
			best = max(best, fitsAnyFamily)
		}
	}
	return best
}

// queue is what the kernel reports about a server's listening sockets.
type queue struct {
	queued int    // connections that the server has yet to accept, for example because all its workers are busy
	socket uint32 // inode of one of the sockets
	cgroup uint64 // id of the cgroup that the socket was made in
}

// queueAt asks the kernel about an address; ok is false if no program listens there, or the kernel doesn't
// answer.
func queueAt(sockets *Sockets, l listener) (q queue, ok bool) {
	best := fitsNot
	if l.name == "" {
		ok = sockets.EachTCP(Listens, l.port, 0, func(s Socket) { q.add(s, l.fit(s), &best) })
		return q, ok && best > fitsNot
	}
	inode, ok := inodeAt(l.name)
	if !ok {
		return q, false
	}
	ok = sockets.EachUnix(Listens, func(s Socket) {
		if s.File == inode && sameFile(s.Name, l.name) {
			q.add(s, fitsExactly, &best)
		}
	})
	return q, ok && best > fitsNot
}

// add counts a socket unless an earlier one fits better. Several sockets fit equally well if workers share an
// address (SO_REUSEPORT).
func (q *queue) add(s Socket, fit int, best *int) {
	if fit == fitsNot || fit < *best {
		return
	}
	if fit > *best {
		*best, *q = fit, queue{socket: s.Inode, cgroup: s.Cgroup}
	}
	q.queued += int(min(s.Queued, 1<<20))
}

// sameFile compares file names without their directories, because a directory may be a symbolic link. The
// inode alone isn't enough, because it is unique only within one file system.
func sameFile(bound []byte, name string) bool {
	i := strings.LastIndexByte(string(bound), '/')
	return string(bound[i+1:]) == path.Base(name)
}

// meets reports whether a connection to one listener may reach the other.
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

// inodeAt returns a file's inode as sock_diag reports it, with 32 bits.
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

// Listening is a TCP socket that listens on this machine, and a program that holds it.
type Listening struct {
	Address netip.AddrPort
	Program string // program's name in the kernel: at most 15 bytes, chosen by the process itself; empty: unknown
	Process int    // number of the program's process; 0: unknown
}

// Listeners lists the listening TCP sockets that this user is allowed to see, each once for every program
// that holds it. If ports are given, it lists only sockets on those ports. A socket that init holds for a
// program counts as the program's. The list is empty if no program listens, or if the kernel doesn't show
// the sockets.
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
	pids, _ := numbered(root, "proc", mostProcesses)           // without /proc, no process is found
	slices.SortFunc(pids, func(a, b int) int { return b - a }) // init, with number 1, comes last
	for _, pid := range pids {
		seen := map[uint32]bool{}
		_ = eachDescriptor(root, pid, func(_ int, link string) bool { // if access is denied, the program stays unknown
			inode := socketOf(link)
			if address, is := at[inode]; is && !seen[inode] && (pid != init || !held[inode]) {
				p, _ := processAt(root, pid) // the process may have ended
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
