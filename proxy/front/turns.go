package front

import (
	"net/netip"
	"sync"
)

// turns has handshakes compute in turn. They cost CPU before there is a request that could be
// charged, and a flood of them would otherwise be on all CPUs at once, before whoever else
// connects and before the requests that are served. Some compute at a time; of those that wait,
// one of each address comes before the second one of any. Who waits is bounded as connections
// are, and by Options.Header.
type turns struct {
	mu    sync.Mutex // guards the following
	free  int        // how many more may compute
	lines map[string]*line
	order []*line // those in which somebody waits, in the order of their turns
}

// line is who waits of one address, first come, first served.
type line struct {
	of   string
	wait []chan struct{}
}

func newTurns(most int) *turns { return &turns{free: most, lines: make(map[string]*line)} }

// take waits for a turn of an address; call done when it is over. It tells whether it had to
// wait.
func (t *turns) take(of string) (waited bool) {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return false
	}
	l := t.lines[of]
	if l == nil {
		l = &line{of: of}
		t.lines[of] = l
		t.order = append(t.order, l)
	}
	turn := make(chan struct{})
	l.wait = append(l.wait, turn)
	t.mu.Unlock()
	<-turn
	return true
}

// done ends a turn. The next one begins.
func (t *turns) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.free++
		return
	}
	l := t.order[0]
	t.order[0], t.order = nil, t.order[1:]
	close(l.wait[0])
	if l.wait = l.wait[1:]; len(l.wait) > 0 {
		t.order = append(t.order, l)
		return
	}
	delete(t.lines, l.of)
}

// turnOf is whose turn a connection takes: that of its address, of IPv6 its /64. A trusted peer
// brings many clients, and each connection of its has turns of its own.
func turnOf(remote string, trusted bool) string {
	a, err := netip.ParseAddrPort(remote)
	if err != nil || trusted {
		return remote
	}
	at := a.Addr().Unmap()
	if at.Is6() {
		p, _ := at.WithZone("").Prefix(64) // of an address without a zone there is one
		return p.String()
	}
	return at.String()
}
