package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/proxy"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/host"
)

// connections limits the number of open connections by this process's descriptors and memory.
type connections struct {
	table *connlimit.Table
	log   *zap.Logger
	heads int // maximum memory for large headers and unread answers, in bytes
}

func newConnections(now time.Time, c *config.Config, log *zap.Logger) (*connections, error) {
	limit, err := host.Limit()
	if err != nil {
		return nil, err
	}
	memory := memoryLimit(log)
	most := min(host.ForClients(limit), fitting(memory, memoryOfEach(c)))
	return &connections{table: connlimit.New(now, most), log: proxy.Capped(log), heads: forHeads(memory)}, nil
}

// memoryLimit returns the memory that this process may use, in bytes: the machine's memory, or the limit of the
// cgroup if that is lower.
func memoryLimit(log *zap.Logger) uint64 {
	most, err := memlimit.FromSystem()
	if err != nil {
		log.Warn("can't read the amount of memory, so only file descriptors limit the number of connections", zap.Error(err))
		most = math.MaxUint64
	}
	if limit, err := memlimit.FromCgroup(); err == nil { // otherwise there is no limit
		most = min(most, limit)
	}
	return most
}

// memoryOfEach returns the most memory, in bytes, that a connection takes before its request reaches the
// limiter. A connection that has sent half of its headers takes 14 KB in this process and as much in the
// kernel. TLS takes 10 KB more, or 33 KB after records of 16 KB.
func memoryOfEach(c *config.Config) uint64 {
	if hasTLS(c) {
		return 64 << 10
	}
	return 32 << 10
}

// fitting returns the number of connections of the given size that fit into a quarter of the memory. The rest is
// for the site.
func fitting(memory, each uint64) int {
	return int(max(1, min(memory/4/each, math.MaxInt32)))
}

// forHeads returns the memory that large headers and unread answers may take, in bytes: an eighth of the memory,
// because uncollected garbage can double their size.
func forHeads(memory uint64) int { return int(min(memory/8, math.MaxInt32)) }

// full closes another connection if a new one can't be accepted.
func (c *connections) full(err error) {
	if c.table.Shed() {
		c.log.Warn("no file descriptor was left for a new connection, so tempomat closed another connection", zap.Error(err))
	} else {
		c.log.Error("no file descriptor is left for a new connection, and tempomat can't close another connection", zap.Error(err))
	}
}

// peer returns the address of a connection's other end, and whether it is a trusted proxy.
func (s *sidecar) peer(remote string) (peer netip.Addr, trusted bool) {
	return s.handler.Policy().Classifier.Peer(remote)
}

// withHint adds advice to the error of a failed attempt to listen on an address.
func withHint(err error, address string) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.EACCES):
		hint = deniedHint(address)
	case errors.Is(err, syscall.EADDRINUSE):
		hint = inUseHint(address)
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w\n  %s", err, hint)
}

// deniedHint says how to get the right to listen on a port below 1024, or to create a Unix socket.
func deniedHint(address string) string {
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		return fmt.Sprintf("%s isn't allowed to create %s: give that user write access to the directory, or set a different path", user(), path)
	}
	const first = 1024 // the default of net.ipv4.ip_unprivileged_port_start
	if portOf(address) >= first {
		return ""
	}
	self := "/usr/bin/tempomat-proxy"
	if path, err := os.Executable(); err == nil {
		self = path
	}
	return fmt.Sprintf("ports below %d (net.ipv4.ip_unprivileged_port_start) require root or CAP_NET_BIND_SERVICE: "+
		"run tempomat-proxy as a service with AmbientCapabilities=CAP_NET_BIND_SERVICE, as tempomat-proxy.service does; "+
		"or run setcap cap_net_bind_service=+ep %s; or listen on port %d or a higher one", first, self, first)
}

// user names the user of this process.
func user() string { return "user " + strconv.Itoa(os.Geteuid()) }

// inUseHint says which processes listen on the port, or how to find them.
func inUseHint(address string) string {
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		return fmt.Sprintf("another process serves it; as root, \"ss -xlp src %s\" shows which", path)
	}
	port := portOf(address)
	var names []string // quoted, because a program's name may contain anything
	ours := false
	for _, l := range host.Listeners(port) {
		name := fmt.Sprintf("%q (process %d)", l.Program, l.Process)
		if l.Process != 0 && !slices.Contains(names, name) { // a program may have several sockets
			names = append(names, name)
			ours = ours || l.Program == "tempomat-proxy"
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("another process listens there; as root, \"ss -ltnp 'sport = :%d'\" shows which", port)
	}
	hint := strings.Join(names, ", ") + " listens there"
	if ours {
		hint += `; to replace it with the installed program, send it SIGUSR2`
	}
	return hint
}

// portOf returns the port of an address, or 0 if it has none.
func portOf(address string) int {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text)
	return port
}
