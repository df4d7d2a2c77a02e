package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"tempomat/cmd/tempomat-proxy/internal/portholder"
)

// withHint is the error of listening on that address, and in a line below it what to do.
// proc is where /proc is mounted.
func withHint(err error, address, proc string) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.EACCES):
		hint = deniedHint(address, proc)
	case errors.Is(err, syscall.EADDRINUSE):
		hint = inUseHint(address, proc)
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w\n  %s", err, hint)
}

// deniedHint says how to be let listen on a port that is for root, or in a directory.
func deniedHint(address, proc string) string {
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		return fmt.Sprintf("%s has no right to make %s: give it the directory, or name another one", user(), path)
	}
	port, first := portOf(address), unprivilegedPort(proc)
	if port == 0 || port >= first {
		return ""
	}
	self := "/usr/bin/tempomat-proxy"
	if path, err := os.Executable(); err == nil {
		self = path
	}
	return fmt.Sprintf("ports below %d (net.ipv4.ip_unprivileged_port_start) are for root, or for who may: "+
		"run it as a service with AmbientCapabilities=CAP_NET_BIND_SERVICE, as tempomat-proxy.service does; "+
		"or setcap cap_net_bind_service=+ep %s; or listen on a port from %d on", first, self, first)
}

// user is who this process runs as.
func user() string { return "user " + strconv.Itoa(os.Geteuid()) }

// inUseHint says who holds the port, or how to see it.
func inUseHint(address, proc string) string {
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		return fmt.Sprintf("another process serves it; as root, \"ss -xlp src %s\" tells which", path)
	}
	port := portOf(address)
	holders := portholder.Find(proc, port)
	if len(holders) == 0 {
		return fmt.Sprintf("another process listens there; as root, \"ss -ltnp 'sport = :%d'\" tells which", port)
	}
	const most = 3
	names := make([]string, 0, most)
	for _, p := range holders[:min(most, len(holders))] {
		names = append(names, p.String())
	}
	hint := strings.Join(names, ", ")
	if len(holders) > most {
		hint += fmt.Sprintf(" and %d more", len(holders)-most)
	}
	hint += " listens there"
	if holders[0].Name == "tempomat-proxy" {
		hint += `; "tempomat-proxy -replace" takes over from it and refuses nobody`
	}
	return hint
}

// portOf is the address's port; 0 if it has none.
func portOf(address string) int {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text)
	return port
}

// unprivilegedPort is the first port that everybody may listen on.
func unprivilegedPort(proc string) int {
	const usual = 1024
	text, err := os.ReadFile(proc + "/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		return usual
	}
	if port, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		return port
	}
	return usual
}
