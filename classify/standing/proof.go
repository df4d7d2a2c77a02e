package standing

import (
	"math"
	"net/netip"
	"strconv"

	"tempomat/classify"
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

// longestName is how many bytes of a cookie's name tell it from others.
const longestName = 64

// recount is how long a session that is in use counts without a look.
const recount = 10 // seconds

// judgeCookies looks for a cookie that the site gave, and makes its session the
// client. Cookies that are other addresses' are passed over: among them may be one
// that the site gives to many.
func (j *Judge) judgeCookies(at int64, c *settings, lines []string, res *classify.Result, x *Visit) {
	eachCookie(lines, func(name, value string) bool {
		place, e, ok := j.sessionOf(at, j.hashOfCookie(x.client, name, value), x)
		if !ok {
			return true
		}
		res.Evidence |= classify.Cookie
		x.session, x.place = e.id, place
		if res.Keys()[0].Class == c.ClientClass {
			id := sessionID(res.Address, e.id)
			if res.Prepend(limiter.Key{Class: c.SessionClass, ID: id}) {
				x.visitor = j.inherit(at, x.address, j.visitorOf(place, &e, id))
			}
		}
		return false
	})
}

// sessionOf is the session of a cookie, if there is one at this address.
func (j *Judge) sessionOf(at int64, value uint64, x *Visit) (place int32, e session, ok bool) {
	place, e, ok = j.sessions.find(value)
	if ok {
		return place, e, j.isAt(at, place, &e, x.address)
	}
	network := j.hashOfNetwork(x.client)
	given, ok := j.handed.find(network, value)
	if !ok || !j.count(at, x.address, 1) {
		return 0, e, false
	}
	e = session{id: given.id}
	e.move(at, x.address)
	place = j.sessions.add(e)
	j.handed.take(network, given.id, func(value uint64) { j.sessions.learn(place, given.id, value, 0) })
	return place, e, true
}

// isAt tells whether a session is one at an address now: it is at home there and the
// address does not have too many, or it may move there.
func (j *Judge) isAt(at int64, place int32, e *session, address uint64) bool {
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
	if !j.count(at, address, weight) {
		return false
	}
	home, left, moved := e.home, e.weight(at), false
	j.sessions.with(place, e.id, func(now *session) {
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
		j.count(at, address, -weight)
		return staying
	case !staying && home != 0:
		j.count(at, home, -left)
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
func (j *Judge) count(at int64, address uint64, weight float32) (may bool) {
	j.visitors.with(address, at, func(v *visitor) {
		v.see(at)
		if may = weight <= 0 || v.sessions+weight <= maxSessions; may {
			v.sessions = max(0, v.sessions+weight)
		}
	})
	return may
}

// visitorOf is as whom a session's visits are remembered: the address's that it was
// proven at, so that what it has shown goes with it.
func (j *Judge) visitorOf(place int32, e *session, id string) uint64 {
	if e.visitor == 0 {
		e.visitor = j.hashOf(id)
		j.sessions.with(place, e.id, func(now *session) { now.visitor = e.visitor })
	}
	return e.visitor
}

// sessionID is the ID of a session's key.
func sessionID(address string, id uint32) string {
	var buffer [64]byte
	return string(strconv.AppendUint(append(append(buffer[:0], address...), '#'), uint64(id), 16))
}

// inherit lets a session that is new go on with the page that its address asked
// for, whose parts are to follow. It returns the session's hash.
func (j *Judge) inherit(at int64, address, session uint64) uint64 {
	isNew := false
	j.visitors.with(session, at, func(v *visitor) { isNew = v.lastPage == 0 })
	if !isNew {
		return session
	}
	var page int64
	j.visitors.with(address, at, func(v *visitor) { page = v.lastPage })
	j.visitors.with(session, at, func(v *visitor) {
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
func (j *Judge) give(lines []string, x *Visit) (toStranger bool) {
	id, network := x.session, uint32(0)
	for i, line := range lines {
		if i == maxCookies {
			break
		}
		name, value, ok := givenCookie(line)
		if !ok {
			continue
		}
		h := j.hashOfCookie(x.client, name, value)
		if x.session != 0 && j.sessions.learn(x.place, x.session, h, hashOfName(name)) {
			continue
		}
		if id == 0 {
			id, toStranger = uint32(h>>32)|1, true
		}
		if network == 0 {
			network = j.hashOfNetwork(x.client)
		}
		if _, _, known := j.sessions.find(h); !known {
			j.handed.put(handed{value: h, id: id, network: network, to: uint32(x.address >> 32)})
		}
	}
	return toStranger
}

// hashOfCookie binds a value to the network that it was given to.
func (j *Judge) hashOfCookie(client netip.Addr, name, value string) uint64 {
	var buffer [512]byte
	text := appendProofNetwork(j.key(buffer[:0], 'v'), client)
	text = append(append(text, name[:min(len(name), longestName)]...), 0)
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
func (j *Judge) hashOfNetwork(client netip.Addr) uint32 {
	var buffer [64]byte
	return uint32(hashOf(appendProofNetwork(j.key(buffer[:0], 'n'), client)) >> 32)
}

// appendProofNetwork appends the network within which a client's address changes:
// its /24; IPv6: its /48, as phones and laptops have several /64 in turn.
func appendProofNetwork(dst []byte, client netip.Addr) []byte {
	bits := 24
	if !client.Is4() {
		bits = 48
	}
	network, err := client.Prefix(bits)
	if err != nil {
		return dst // not reached: addresses are valid and the lengths fit
	}
	raw := network.Addr().As16()
	return append(dst, raw[:]...)
}
