package admin

import (
	"net/netip"
	"sync"
	"time"
)

const (
	attemptsAtOnce = 10              // wrong tokens of an address that are refused at once
	attemptEvery   = 6 * time.Second // and then one in this time
	mostGuessers   = 1024            // addresses that are remembered
)

// attempts bounds how many tokens an address can try. Its methods may be called
// concurrently.
type attempts struct {
	mu   sync.Mutex // guards the following
	from map[netip.Prefix]guesser
}

// guesser is an address that gave a wrong token: a token bucket, whole when it is forgotten.
type guesser struct {
	left float64
	at   time.Time
}

func (g guesser) now(now time.Time) float64 {
	return min(attemptsAtOnce, g.left+float64(now.Sub(g.at))/float64(attemptEvery))
}

// allows tells whether an address may try another token.
func (a *attempts) allows(now time.Time, from netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	g, known := a.from[a.accountLocked(now, from)]
	return !known || g.now(now) >= 1
}

// failed notes that it was a wrong one.
func (a *attempts) failed(now time.Time, from netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	account := a.accountLocked(now, from)
	g, known := a.from[account]
	if !known {
		g = guesser{left: attemptsAtOnce, at: now}
	}
	if a.from == nil {
		a.from = make(map[netip.Prefix]guesser)
	}
	a.from[account] = guesser{left: max(0, g.now(now)-1), at: now}
}

// accountLocked is whom an attempt counts for: the address, or the network that an IPv6 host
// has to itself. While as many guess as are remembered, all others count as one.
func (a *attempts) accountLocked(now time.Time, from netip.Addr) netip.Prefix {
	bits := 32
	if from = from.Unmap(); from.Is6() {
		bits = 64
	}
	account, _ := from.WithZone("").Prefix(bits)
	if _, known := a.from[account]; known || len(a.from) < mostGuessers {
		return account
	}
	for other, g := range a.from {
		if g.now(now) >= attemptsAtOnce {
			delete(a.from, other)
		}
	}
	if len(a.from) < mostGuessers {
		return account
	}
	return netip.Prefix{}
}
