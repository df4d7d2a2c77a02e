package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Tests use ports below those that the kernel assigns to connections and to listeners at port 0 (on Linux, from
// 32768). If a higher port is free now, the kernel may assign it before a server can use it. Such a port also
// stays in use for a minute after a connection has ended.
const (
	firstPort = 12000
	lastPort  = 31999
)

// FreePorts returns the first of n consecutive ports that are free at 127.0.0.1, for TCP and UDP. No other
// test, even in another process, gets these ports before this test ends.
func FreePorts(t testing.TB, n int) (first int) {
	t.Helper()
	for range 1000 {
		first := firstPort + rand.IntN(lastPort-firstPort-n+2) //nolint:gosec // keeps tests from competing for the same ports
		if takePorts(t, first, n) {
			return first
		}
	}
	t.Fatalf("no %d consecutive ports are free", n)
	return 0
}

// FreeAddress returns an address on this machine with a port from FreePorts.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", FreePorts(t, 1))
}

// Listen returns a listener on this machine that is closed when the test ends.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once or not at all
	Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// takePorts reserves ports for this test if they are free. Abstract Unix sockets show the reservation to all
// processes.
func takePorts(t testing.TB, first, n int) bool {
	var notes []net.Listener
	for port := first; port < first+n; port++ {
		note, err := net.Listen("unix", fmt.Sprintf("@tempomat-test-port-%d", port)) //nolint:noctx // at once or not at all
		if err == nil {
			notes = append(notes, note)
		}
		if err != nil || !isFree(fmt.Sprintf("127.0.0.1:%d", port)) {
			closeAll(notes)
			return false
		}
	}
	t.Cleanup(func() { closeAll(notes) })
	return true
}

func isFree(address string) bool {
	l, err := net.Listen("tcp", address) //nolint:noctx // at once or not at all
	if err != nil {
		return false
	}
	defer func() { _ = l.Close() }()
	p, err := net.ListenPacket("udp", address) //nolint:noctx // at once or not at all
	if err != nil {
		return false
	}
	return p.Close() == nil
}

func closeAll(notes []net.Listener) {
	for _, l := range notes {
		_ = l.Close() // no client is connected
	}
}
