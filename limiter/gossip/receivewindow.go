package gossip

// windowSize is how many parcels of one node can be told apart: of 64 epochs, if
// each is split over 64 of them.
const windowSize = 4096

// receiveWindow is which parcels of one node are done with. Each is numbered, from 1.
type receiveWindow struct {
	high uint64 // the greatest that is; those at or below high-windowSize all are
	low  uint64 // all up to here are
	bits [windowSize / 64]uint64
}

// has tells whether a parcel is done with.
func (w *receiveWindow) has(seq uint64) bool {
	switch {
	case seq > w.high:
		return false
	case seq <= w.low || seq+windowSize <= w.high:
		return true
	}
	return w.bits[seq/64%(windowSize/64)]&(1<<(seq%64)) != 0
}

// add says that a parcel is done with.
func (w *receiveWindow) add(seq uint64) {
	if w.has(seq) {
		return
	}
	if seq > w.high {
		w.raise(seq)
	}
	w.bits[seq/64%(windowSize/64)] |= 1 << (seq % 64)
}

// raise moves the window up. The numbers that come into it are not done with.
func (w *receiveWindow) raise(high uint64) {
	if high-w.high >= windowSize {
		w.bits = [windowSize / 64]uint64{}
	} else {
		for s := w.high + 1; s <= high; s++ {
			w.bits[s/64%(windowSize/64)] &^= 1 << (s % 64)
		}
	}
	w.high = high
	if high > windowSize {
		w.low = max(w.low, high-windowSize)
	}
}

// skip says that all up to a number are done with.
func (w *receiveWindow) skip(seq uint64) {
	if seq > w.high {
		w.raise(seq)
	}
	w.low = max(w.low, seq)
}

// span is numbers, both ends included.
type span struct{ from, to uint64 }

// missing lists what is not done with below high, the newest first, as at most so
// many spans.
func (w *receiveWindow) missing(most int) (spans []span) {
	for s := w.high; s > w.low; s-- {
		if w.has(s) {
			continue
		}
		if n := len(spans); n > 0 && spans[n-1].from == s+1 {
			spans[n-1].from = s
			continue
		}
		if len(spans) == most {
			break
		}
		spans = append(spans, span{s, s})
	}
	return spans
}

// adopt says that all is done with that is for somebody else.
func (w *receiveWindow) adopt(high uint64, missing []span) {
	from := w.low
	if high > windowSize {
		from = max(from, high-windowSize)
		w.skip(from)
	}
	for s := from + 1; s <= high; s++ {
		if !within(missing, s) {
			w.add(s)
		}
	}
	if high > w.high {
		w.raise(high)
	}
}

func within(spans []span, s uint64) bool {
	for _, p := range spans {
		if p.from <= s && s <= p.to {
			return true
		}
	}
	return false
}
