package gossip

import "time"

// shelfSize bounds what is kept of all peers' parcels together, in bytes. Beyond,
// the oldest go before their time.
const shelfSize = 32 << 20

// shelf keeps parcels for those who did not get them, in the order in which they
// came.
type shelf struct {
	parcels []shelved
	size    int
}

type shelved struct {
	parcel
	came time.Time
}

func (s *shelf) put(now time.Time, p parcel) {
	s.parcels = append(s.parcels, shelved{p, now})
	s.size += len(p.data)
}

// forget drops what came before an instant, and what there is no room for.
func (s *shelf) forget(before time.Time) {
	n := 0
	for n < len(s.parcels) && (s.size > shelfSize || s.parcels[n].came.Before(before)) {
		s.size -= len(s.parcels[n].data)
		s.parcels[n] = shelved{}
		n++
	}
	if s.parcels = s.parcels[n:]; len(s.parcels) == 0 {
		s.parcels = nil
	}
}
