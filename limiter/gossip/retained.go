package gossip

import "time"

// retainedSize bounds what is kept of all peers' parcels together, in bytes. Beyond,
// the oldest go before their time.
const retainedSize = 32 << 20

// retained keeps parcels for those who did not get them, in the order in which they
// came.
type retained struct {
	parcels []retainedParcel
	size    int
}

type retainedParcel struct {
	parcel
	came time.Time
}

func (s *retained) put(now time.Time, p parcel) {
	s.parcels = append(s.parcels, retainedParcel{p, now})
	s.size += len(p.data)
}

// forget drops what came before an instant, and what there is no room for.
func (s *retained) forget(before time.Time) {
	n := 0
	for n < len(s.parcels) && (s.size > retainedSize || s.parcels[n].came.Before(before)) {
		s.size -= len(s.parcels[n].data)
		s.parcels[n] = retainedParcel{}
		n++
	}
	if s.parcels = s.parcels[n:]; len(s.parcels) == 0 {
		s.parcels = nil
	}
}
