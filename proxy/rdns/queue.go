package rdns

import (
	"net/netip"
	"sync"
)

const (
	mostWaiting   = 512
	mostOfNetwork = 32 // of a /24, or an IPv6 /48
)

// queue is the addresses that wait to be asked for, first come, first served.
type queue struct {
	waiting chan netip.Addr

	mu       sync.Mutex           // guards the following
	networks map[netip.Prefix]int // how many of each wait or are being asked for
}

func newQueue() *queue {
	return &queue{waiting: make(chan netip.Addr, mostWaiting), networks: make(map[netip.Prefix]int)}
}

// push is false if there is no room.
func (q *queue) push(a netip.Addr) bool {
	of := networkOf(a)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.networks[of] >= mostOfNetwork {
		return false
	}
	select {
	case q.waiting <- a:
		q.networks[of]++
		return true
	default:
		return false
	}
}

// done says that an address is no longer asked for.
func (q *queue) done(a netip.Addr) {
	of := networkOf(a)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.networks[of]--; q.networks[of] == 0 {
		delete(q.networks, of)
	}
}

func (q *queue) len() int { return len(q.waiting) }

func networkOf(a netip.Addr) netip.Prefix {
	bits := 24
	if a.Is6() {
		bits = 48
	}
	p, _ := a.Prefix(bits) // of a valid address without a zone there is one
	return p
}
