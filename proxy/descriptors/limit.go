package descriptors

import (
	"fmt"
	"syscall"
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
