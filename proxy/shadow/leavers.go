package shadow

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

const (
	leaversKept = 64
	fewLeavers  = 8
)

// leavers is after how long those clients left that were the last ones to leave before anybody had accepted
// their requests. Others got no connection at all, so that nobody knows for how long they would have waited: as long
// as these did. A client counts once, however often it leaves: else one that leaves many requests at once would
// have the report say of all others that they do.
type leavers struct {
	last [leaversKept]leaver
	n    int // of last
	next int // which one makes room
}

// leaver is a client, and after how long it left last.
type leaver struct {
	client netip.Addr // of IPv6, its network of 64 bits
	after  time.Duration
}

// add takes in a request that is over.
func (l *leavers) add(s *seen) {
	if !s.unserved() || s.left <= 0 {
		return
	}
	client, kept := household(s.who.Client), l.last[:l.n]
	if i := slices.IndexFunc(kept, func(x leaver) bool { return x.client == client }); i >= 0 {
		kept[i].after = s.left
		return
	}
	l.last[l.next] = leaver{client, s.left}
	l.n, l.next = max(l.n, l.next+1), (l.next+1)%leaversKept
}

// household is whose addresses are one client's, who has 2^64 of IPv6 to choose from.
func household(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	return netip.PrefixFrom(a, 64).Masked().Addr()
}

// patience is after how long a request's client would leave a queue; 0: it would not, as far as is known.
func (l *leavers) patience(s *seen) time.Duration {
	if s.left > 0 || !s.unserved() || l.n < fewLeavers {
		return s.left
	}
	all := l.last
	kept := all[:l.n]
	slices.SortFunc(kept, func(a, b leaver) int { return cmp.Compare(a.after, b.after) })
	return kept[len(kept)/2].after
}

// unserved tells whether it is known that nobody worked on the request.
func (s *seen) unserved() bool { return s.cut && s.used == 0 }
