package gossip

import "time"

// skewMemory is how long the least of the samples is taken over, to twice of it.
// A clock that was set back is believed again after that.
const skewMemory = 5 * time.Second

// skew estimates how far the clock of a peer is behind ours. A message that is
// received at our time r and was sent at its time s gives r-s, which is that and
// what the transit took; the least of the recent ones has the least transit in
// it. (The filter by minimum is that of David Mills's clock filter, RFC 5905
// chapter 10, on one way only.)
type skew struct {
	now, old time.Duration // the least since turned, and in the time before
	turned   time.Time
	known    bool
}

func (s *skew) sample(now time.Time, behind time.Duration) {
	switch age := now.Sub(s.turned); {
	case !s.known || age > 2*skewMemory:
		*s = skew{now: behind, old: behind, turned: now, known: true}
	case age > skewMemory:
		s.now, s.old, s.turned = behind, s.now, now
	default:
		s.now = min(s.now, behind)
	}
}

// behind is how far the peer's clock is behind ours, negative if it is ahead, and
// zero as long as nothing is known.
func (s *skew) behind() time.Duration { return min(s.now, s.old) }
