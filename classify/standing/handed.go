package standing

import "sync"

// handed is a cookie that the site gave and that has not come back yet.
type handed struct {
	value   uint64 // 0: none
	id      uint32 // of the session that it will be of
	network uint32 // a part of the network's hash
	to      uint32 // a part of the address's hash
	order   uint32 // in which they were given
}

const (
	handedWays    = 16
	handedSets    = 1 << 13 // 131072 cookies, 3 MB
	handedRegion  = 16      // sets that a network's cookies are in: 256 cookies
	handedAddress = 8       // in each of them, of one address: half
)

// handedOut are the cookies that the site gave, as keyed hashes, until they come
// back. A network's are in a few sets, and of each one address has half at most:
// who collects cookies without bringing them back pushes out its own ones, then its
// neighbours', and hardly any other network's.
type handedOut struct {
	mu    sync.Mutex // guards the following
	sets  [][handedWays]handed
	given uint32 // so many, counted around
}

// setOf is the set of a cookie.
func setOf(network uint32, value uint64) uint32 {
	return (network + uint32(value>>1)%handedRegion) % handedSets //nolint:gosec // any bits but the lowest, which is always 1
}

// put remembers a cookie.
func (h *handedOut) put(e handed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sets == nil {
		h.sets = make([][handedWays]handed, handedSets)
	}
	h.given++
	e.order = h.given
	*h.placeLocked(e) = e
}

// placeLocked is where a cookie goes: where it is; else in the place of the oldest
// of its address's, if that has its part of the set; else where there is room, or of
// the oldest of all.
func (h *handedOut) placeLocked(e handed) *handed {
	set := &h.sets[setOf(e.network, e.value)]
	var free, own *handed
	oldest, owned := &set[0], 0
	for i := range set {
		x := &set[i]
		if x.value == e.value {
			return x
		}
		if x.value == 0 {
			free = x
			continue
		}
		if h.given-x.order > h.given-oldest.order {
			oldest = x
		}
		if x.to == e.to && x.network == e.network {
			if owned++; own == nil || h.given-x.order > h.given-own.order {
				own = x
			}
		}
	}
	switch {
	case owned >= handedAddress:
		return own
	case free != nil:
		return free
	}
	return oldest
}

// find returns a cookie that was given to a network.
func (h *handedOut) find(network uint32, value uint64) (handed, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sets == nil {
		return handed{}, false
	}
	set := &h.sets[setOf(network, value)]
	for i := range set {
		if set[i].value == value {
			return set[i], true
		}
	}
	return handed{}, false
}

// take takes out all cookies of a session that was given them in a network.
func (h *handedOut) take(network, id uint32, f func(value uint64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range uint32(handedRegion) {
		set := &h.sets[(network+i)%handedSets]
		for j := range set {
			if x := &set[j]; x.value != 0 && x.id == id && x.network == network {
				f(x.value)
				x.value = 0
			}
		}
	}
}

// each calls f with all of them.
func (h *handedOut) each(f func(handed)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.sets {
		for j := range h.sets[i] {
			if x := &h.sets[i][j]; x.value != 0 {
				f(*x)
			}
		}
	}
}
