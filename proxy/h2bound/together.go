package h2bound

import (
	"net/netip"
	"sync"
	"time"

	"tempomat/proxy/connlimit"
)

// Together: requests of all connections of an address, also one after the other. One that
// is answered counts no more; of others 400 a second are forgotten. Without it, who opens a
// connection, gives up some hundreds of requests and closes it, again and again, has the
// server work for nobody without a limit. net/http allows 250 streams to a connection, so
// that 16 connections may have all at once.
const (
	togetherPerSecond = 400
	mostTogether      = 4000
	// mostAddresses is how many are known before those without a connection are forgotten.
	mostAddresses = 1 << 16
)

// Addresses bound what the connections of an address do together. The zero value knows of
// none. Its methods may be called concurrently.
type Addresses struct {
	mu    sync.Mutex
	known map[netip.Addr]*address
}

// address is what one address does; one of IPv6 stands for its /64.
type address struct {
	all   *Addresses
	key   netip.Addr
	conns int        // guarded by all.mu
	mu    sync.Mutex // guards the following
	paid  time.Time  // until when what came is paid for
}

// enter notes a connection of an address, until leave.
func (t *Addresses) enter(from netip.Addr) *address {
	from = connlimit.ClientOf(from)
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.known[from]
	if a == nil {
		t.forget()
		a = &address{all: t, key: from}
		if t.known == nil {
			t.known = make(map[netip.Addr]*address)
		}
		t.known[from] = a
	}
	a.conns++
	return a
}

// forget makes room among those without a connection, if there are too many.
func (t *Addresses) forget() {
	if len(t.known) < mostAddresses {
		return
	}
	for key, a := range t.known {
		if a.conns == 0 {
			delete(t.known, key)
		}
	}
}

// leave notes the end of a connection.
func (a *address) leave(now time.Time) {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	if a.conns--; a.conns > 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.paid.After(now) {
		delete(a.all.known, a.key)
	}
}

// begin tells whether one more request may begin.
func (a *address) begin(now time.Time) bool {
	const burst = mostTogether * (time.Second / togetherPerSecond)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.paid.Before(now) {
		a.paid = now
	}
	if late := a.paid.Sub(now) - burst; late >= 0 {
		return false
	}
	a.paid = a.paid.Add(time.Second / togetherPerSecond)
	return true
}

// complete notes that a request was answered: it does not count any more.
func (a *address) complete() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paid = a.paid.Add(-time.Second / togetherPerSecond)
}
