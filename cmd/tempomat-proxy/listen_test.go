package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tempomat/config"
	"tempomat/internal/testkit"
)

// TestParts: connections leave three quarters of the memory to the site, and large headers leave seven eighths. The
// limits fit into any machine's integers.
func TestParts(t *testing.T) {
	for memory, want := range map[uint64][2]int{
		0: {1, 0}, 100 << 10: {1, 12800}, 512 << 20: {4096, 64 << 20}, 24 << 30: {196_608, math.MaxInt32}, math.MaxUint64: {math.MaxInt32, math.MaxInt32},
	} {
		testkit.Same(t, want, [2]int{fitting(memory, memoryOfEach(config.Default())), forHeads(memory)}, "of %d bytes: connections, bytes of headers", memory)
	}
}

// TestListenHints: the advice follows the system's message.
func TestListenHints(t *testing.T) {
	for _, c := range []struct {
		address string
		is      error
		parts   []string // none: no hint
	}{
		{":80", syscall.EACCES, []string{"ports below 1024 (", "AmbientCapabilities=CAP_NET_BIND_SERVICE", "setcap cap_net_bind_service=+ep /", "listen on port 1024 or"}},
		{"[::1]:99", syscall.EACCES, []string{"ports below 1024 ("}},
		{":1024", syscall.EACCES, nil},
		{"unix:/srv/a.sock", syscall.EACCES, []string{"isn't allowed to create /srv/a.sock"}},
		{":1", syscall.EADDRINUSE, []string{`another process listens there; as root, "ss -ltnp 'sport = :1'" shows which`}},
		{"unix:/run/a.sock", syscall.EADDRINUSE, []string{`"ss -xlp src /run/a.sock"`}},
		{":80", syscall.EADDRNOTAVAIL, nil},
		{":80", errors.New("anything"), nil},
	} {
		err := withHint(fmt.Errorf("listen on %s: %w", c.address, c.is), c.address)
		said, hint, hinted := strings.Cut(err.Error(), "\n  ")
		if !errors.Is(err, c.is) || said != "listen on "+c.address+": "+c.is.Error() || hinted != (c.parts != nil) {
			t.Errorf("%s, %v: %v", c.address, c.is, err)
		}
		for _, part := range c.parts {
			if !strings.Contains(hint, part) {
				t.Errorf("%s, %v: no %q in %s", c.address, c.is, part, hint)
			}
		}
	}
}

// TestListenNamesTheHolder: the error names this process, which holds the port.
func TestListenNamesTheHolder(t *testing.T) {
	taken := testkit.Listen(t)
	_, err := listen(t.Context(), []string{taken.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), ": bind: address already in use\n  ") ||
		!strings.Contains(err.Error(), "(process "+strconv.Itoa(os.Getpid())+") listens there") {
		t.Errorf("got %v", err)
	}
}
