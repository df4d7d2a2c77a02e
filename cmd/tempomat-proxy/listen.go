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

// connections bound how many are open, by the descriptors and the memory that there are.
type connections struct {
	table *connlimit.Table
	log   *zap.Logger
	heads int // bytes that large headers may take
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

// memoryLimit is how much there is for this process, of the machine and of its cgroup, in bytes.
func memoryLimit(log *zap.Logger) uint64 {
	most, err := memlimit.FromSystem()
	if err != nil {
		log.Warn("how much memory there is is unknown: connections are bounded by descriptors alone", zap.Error(err))
		most = math.MaxUint64
	}
	if limit, err := memlimit.FromCgroup(); err == nil { // else it has none
		most = min(most, limit)
	}
	return most
}

// memoryOfEach is what a connection takes at most before its request is one that the
// limiter decides on, in bytes: 14 KB here for one that sends half a head, and as much
// in the kernel. TLS takes 10 KB more, and 33 KB of one that has sent whole records of 16 KB.
func memoryOfEach(c *config.Config) uint64 {
	if hasTLS(c) {
		return 64 << 10
	}
	return 32 << 10
}

// fitting is how many connections may be open where there is so much memory, in bytes, and
// each takes so much of it: as many as take a quarter of it. The rest is the site's.
func fitting(memory, each uint64) int {
	return int(max(1, min(memory/4/each, math.MaxInt32)))
}

// forHeads is how much large headers may take, in bytes, of so much memory: an eighth, as
// the garbage collector lets that become a quarter.
func forHeads(memory uint64) int { return int(min(memory/8, math.MaxInt32)) }

// guard has listeners go on where there is no descriptor left.
func (c *connections) guard(listeners []net.Listener) []net.Listener {
	guarded := make([]net.Listener, len(listeners))
	for i, l := range listeners {
		guarded[i] = host.Patient(l, c.full)
	}
	return guarded
}

// full makes room for a connection that cannot be accepted.
func (c *connections) full(err error) {
	if c.table.Shed() {
		c.log.Warn("no descriptor was left for a connection: another one was closed", zap.Error(err))
	} else {
		c.log.Error("no descriptor is left for a connection, and none can be closed", zap.Error(err))
	}
}

// peer is the other end's user.
func (s *sidecar) peer(remote string) (peer netip.Addr, trusted bool) {
	return s.handler.Policy().Classifier.Peer(remote)
}

// withHint is the error of listening on that address, and in a line below it what to do.
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

// deniedHint says how to be let listen on a port that is for root, or in a directory.
func deniedHint(address string) string {
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		return fmt.Sprintf("%s has no right to make %s: give it the directory, or name another one", user(), path)
	}
	const first = 1024 // or as net.ipv4.ip_unprivileged_port_start has it
	if portOf(address) >= first {
		return ""
	}
	self := "/usr/bin/tempomat-proxy"
	if path, err := os.Executable(); err == nil {
		self = path
	}
	return fmt.Sprintf("ports below %d (net.ipv4.ip_unprivileged_port_start) are for root, or for a process with that right: "+
		"run it as a service with AmbientCapabilities=CAP_NET_BIND_SERVICE, as tempomat-proxy.service does; "+
		"or setcap cap_net_bind_service=+ep %s; or listen on a port from %d on", first, self, first)
}

// user is the user of this process.
func user() string { return "user " + strconv.Itoa(os.Geteuid()) }

// inUseHint says who holds the port, or how to see it.
func inUseHint(address string) string {
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		return fmt.Sprintf("another process serves it; as root, \"ss -xlp src %s\" shows which", path)
	}
	port := portOf(address)
	var names []string // in quotes, as a name may hold anything
	ours := false
	for _, l := range host.Listeners(port) {
		name := fmt.Sprintf("%q (process %d)", l.Program, l.Process)
		if l.Process != 0 && !slices.Contains(names, name) { // it may have several sockets
			names = append(names, name)
			ours = ours || l.Program == "tempomat-proxy"
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("another process listens there; as root, \"ss -ltnp 'sport = :%d'\" shows which", port)
	}
	hint := strings.Join(names, ", ") + " listens there"
	if ours {
		hint += `; to replace it by the installed program, send it SIGUSR2`
	}
	return hint
}

// portOf is the address's port; 0 if it has none.
func portOf(address string) int {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text)
	return port
}
