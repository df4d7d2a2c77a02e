package workers

import (
	"slices"
	"time"

	"tempomat/proxy/host"
)

// askers tells which processes are connected with a database: only they wait for it. That
// takes the right to see descriptors; where it is missing all are taken to be.
type askers struct {
	sockets *host.Sockets
	proc    proc

	looked  time.Time
	ports   []uint16 // where the databases listen
	names   []string
	clients map[uint32]bool // the sockets that are connected there, by their inodes
}

// look finds who is connected now with the databases that have these processes. Not ok: it
// is not to be seen.
func (a *askers) look(now time.Time, databases []int) (ok bool) {
	if a == nil {
		return false
	}
	pause := looksFor
	if len(a.ports)+len(a.names) == 0 {
		pause = time.Second // it may be about to start
	}
	if a.looked.IsZero() || now.Sub(a.looked) >= pause {
		a.looked = now
		a.listeners(databases)
	}
	if len(a.ports)+len(a.names) == 0 {
		return false
	}
	if a.clients == nil {
		a.clients = map[uint32]bool{}
	}
	clear(a.clients)
	if len(a.names) > 0 {
		a.sockets.EachUnix(host.Established, func(s host.Socket) {
			if s.Peer != 0 && slices.Contains(a.names, string(s.Name)) {
				a.clients[s.Peer] = true
			}
		})
	}
	for _, port := range a.ports {
		a.sockets.EachTCP(host.Established, 0, port, func(s host.Socket) { a.clients[s.Inode] = true })
	}
	return true
}

// listeners finds where processes listen.
func (a *askers) listeners(of []int) {
	held := map[uint32]bool{}
	for _, pid := range of {
		_ = a.proc.each(pid, func(_ int, link string) bool {
			if inode := socketOf(link); inode != 0 {
				held[inode] = true
			}
			return true
		})
	}
	a.ports, a.names = nil, nil
	a.sockets.EachTCP(host.Listens, 0, 0, func(s host.Socket) {
		if held[s.Inode] && !slices.Contains(a.ports, s.Port) {
			a.ports = append(a.ports, s.Port)
		}
	})
	a.sockets.EachUnix(host.Listens, func(s host.Socket) {
		if name := string(s.Name); held[s.Inode] && name != "" {
			a.names = append(a.names, name)
		}
	})
}

// isOne tells whether a process is connected with a database, and by which descriptor. It is
// looked at first by which one it was the last time.
func (a *askers) isOne(pid, last int) (fd int, is bool) {
	if a.clients[socketOf(a.proc.link(pid, last))] {
		return last, true
	}
	_ = a.proc.each(pid, func(at int, link string) bool {
		fd, is = at, a.clients[socketOf(link)]
		return !is
	})
	return fd, is
}
