package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports of tests are below those that the kernel gives by itself, to connections and to
// who listens at port 0 (on Linux from 32768): of these one that is free now may be anybody's
// by the time that a server wants it, for a minute after its connection has ended as well.
const (
	firstPort = 12000
	lastPort  = 31999
)

// FreePorts returns the first of n ports in a row that are free at 127.0.0.1, for TCP and
// UDP, and that no other test is given before this one ends, of any process.
func FreePorts(t testing.TB, n int) (first int) {
	t.Helper()
	for range 1000 {
		first := firstPort + rand.IntN(lastPort-firstPort-n+2) //nolint:gosec // only that others get others
		if takePorts(t, first, n) {
			return first
		}
	}
	t.Fatalf("no %d ports in a row are free", n)
	return 0
}

// FreeAddress is one of this machine, with a port of FreePorts.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", FreePorts(t, 1))
}

// takePorts notes where all processes see it that ports are this test's, if they are free.
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
		_ = l.Close() // nobody connects
	}
}
