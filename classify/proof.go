package classify

import (
	"math"
	"net/netip"
	"strconv"

	"tempomat/limiter"
)

// How a cookie makes a session.
//
// One that comes back proves one address (IPv6: one /64), as a cookie that a fleet
// of crawlers shares would otherwise make each of them somebody else. An address
// changes within its network (/24, IPv6: /48): a phone's does. Its session goes with
// it, at once, as nobody can say whether the old one will be used again; then it is
// none at the old one. So whoever shares a cookie has one session among them, at one
// address at a time, and as it changes a few times only, most of them never have it.
//
// An address has a bounded number of sessions that are in use, wherever they were
// proven. A session counts as one of its address's while it is in use and fades when
// it is not; as it leaves it counts no longer. What is beyond the bound is no session.

// recount is how long a session that is in use counts without a look.
const recount = 10 // seconds

// judgeCookies looks for a cookie that the site gave, and makes its session the
// client. Cookies that are other addresses' are passed over: among them may be one
// that the site gives to many.
func (s *Standing) judgeCookies(at int64, c *standingConfig, lines []string, res *Result) {
	eachCookie(lines, func(name, value string) bool {
		place, e, ok := s.sessionOf(at, s.hashOfCookie(res.Client, name, value), res)
		if !ok {
			return true
		}
		res.Evidence |= Cookie
		res.session, res.place = e.id, place
		if res.Keys()[0].Class == c.ClientClass {
			id := sessionID(res.Address, e.id)
			if res.prepend(limiter.Key{Class: c.SessionClass, ID: id}) {
				res.visitor = s.inherit(at, res.address, s.visitorOf(place, &e, id))
			}
		}
		return false
	})
}

// sessionOf is the session of a cookie, if there is one at this address.
func (s *Standing) sessionOf(at int64, value uint64, res *Result) (place int32, e session, ok bool) {
	place, e, ok = s.sessions.find(value)
	if ok {
		return place, e, s.isAt(at, place, &e, res.address)
	}
	network := s.hashOfNetwork(res.Client)
	given, ok := s.handed.find(network, value)
	if !ok || !s.count(at, res.address, 1) {
		return 0, e, false
	}
	e = session{id: given.id}
	e.move(at, res.address)
	place = s.sessions.add(e)
	s.handed.take(network, given.id, func(value uint64) { s.sessions.learn(place, given.id, value, 0) })
	return place, e, true
}

// isAt tells whether a session is one at an address now: it is at home there and the
// address does not have too many, or it may move there.
func (s *Standing) isAt(at int64, place int32, e *session, address uint64) bool {
	staying := e.home == address
	if staying && at-e.counted < recount {
		return true
	}
	if !staying && !e.mayMove(at) {
		return false
	}
	weight := float32(1)
	if staying {
		weight -= e.weight(at)
	}
	if !s.count(at, address, weight) {
		return false
	}
	home, left, moved := e.home, e.weight(at), false
	s.sessions.with(place, e.id, func(now *session) {
		if moved = now.home == home && now.counted == e.counted; !moved {
			return // another request of its own, at the same time
		}
		if staying {
			now.counted = at
		} else {
			now.move(at, address)
		}
	})
	switch {
	case !moved:
		s.count(at, address, -weight)
		return staying
	case !staying && home != 0:
		s.count(at, home, -left)
	}
	return true
}

// weight is as how much of a session it still counts at its home.
func (e *session) weight(at int64) float32 {
	if e.counted == 0 {
		return 0
	}
	return float32(math.Exp2(-float64(max(0, at-e.counted)) / lately))
}

// count counts a session of an address, or a part of one, if it may have so much more.
func (s *Standing) count(at int64, address uint64, weight float32) (may bool) {
	s.visitors.with(address, at, func(v *visitor) {
		v.see(at)
		if may = weight <= 0 || v.sessions+weight <= maxSessions; may {
			v.sessions = max(0, v.sessions+weight)
		}
	})
	return may
}

// visitorOf is as whom a session's visits are remembered: the address's that it was
// proven at, so that what it has shown goes with it.
func (s *Standing) visitorOf(place int32, e *session, id string) uint64 {
	if e.visitor == 0 {
		e.visitor = s.hashOf(id)
		s.sessions.with(place, e.id, func(now *session) { now.visitor = e.visitor })
	}
	return e.visitor
}

// sessionID is the ID of a session's key.
func sessionID(address string, id uint32) string {
	var buffer [maxID]byte
	return string(strconv.AppendUint(append(append(buffer[:0], address...), '#'), uint64(id), 16))
}

// inherit lets a session that is new go on with the page that its address asked
// for, whose parts are to follow. It returns the session's hash.
func (s *Standing) inherit(at int64, address, session uint64) uint64 {
	isNew := false
	s.visitors.with(session, at, func(v *visitor) { isNew = v.lastPage == 0 })
	if !isNew {
		return session
	}
	var page int64
	s.visitors.with(address, at, func(v *visitor) { page = v.lastPage })
	s.visitors.with(session, at, func(v *visitor) {
		if v.lastPage == 0 && page > 0 {
			v.served(page)
			v.pages = 1
		}
	})
	return session
}

// give remembers the cookies that an answer gives, and tells whether it gave any to
// somebody without a session. Sites change the value of a session's cookie, some with
// every answer: the new one is of the same session.
func (s *Standing) give(lines []string, res *Result) (toStranger bool) {
	id, network := res.session, uint32(0)
	for i, line := range lines {
		if i == maxCookies {
			break
		}
		name, value, ok := givenCookie(line)
		if !ok {
			continue
		}
		h := s.hashOfCookie(res.Client, name, value)
		if res.session != 0 && s.sessions.learn(res.place, res.session, h, hashOfName(name)) {
			continue
		}
		if id == 0 {
			id, toStranger = uint32(h>>32)|1, true
		}
		if network == 0 {
			network = s.hashOfNetwork(res.Client)
		}
		if _, _, known := s.sessions.find(h); !known {
			s.handed.put(handed{value: h, id: id, network: network, to: uint32(res.address >> 32)})
		}
	}
	return toStranger
}

// hashOfCookie binds a value to the network that it was given to.
func (s *Standing) hashOfCookie(client netip.Addr, name, value string) uint64 {
	var buffer [512]byte
	text := appendProofNetwork(s.key(buffer[:0], 'v'), client)
	text = append(append(text, name[:min(len(name), maxID)]...), 0)
	return hashOf(append(text, value...))
}

// hashOfName tells the names of a session's cookies apart, mostly. It is never 0.
func hashOfName(name string) uint8 {
	h := uint32(2166136261) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	return uint8(h>>24) | 1
}

// hashOfNetwork is that of the network that cookies are given to.
func (s *Standing) hashOfNetwork(client netip.Addr) uint32 {
	var buffer [64]byte
	return uint32(hashOf(appendProofNetwork(s.key(buffer[:0], 'n'), client)) >> 32)
}

// appendProofNetwork appends the network within which a client's address changes:
// its /24; IPv6: its /48, as phones and laptops have several /64 in turn.
func appendProofNetwork(dst []byte, client netip.Addr) []byte {
	by := Slash24
	if !client.Is4() {
		by = Slash16
	}
	network, err := client.Prefix(networkBits(by, client.Is4()))
	if err != nil {
		return dst // not reached: addresses are valid and the lengths fit
	}
	raw := network.Addr().As16()
	return append(dst, raw[:]...)
}
