package standing

import (
	"math"
	"net/netip"
	"strconv"
	"strings"
	"sync"

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
		if ok = j.isAt(at, place, &e, x.address); ok && at-e.counted >= recount {
			j.tellCookie(at, value, e.id, x)
		}
		return place, e, ok
	}
	network := j.hashOfNetwork(x.client)
	given, ok := j.handed.find(network, value)
	if !ok {
		return 0, e, false
	}
	if place, e, ok = j.sessions.findID(given.id); ok && e.home == x.address { // another instance gave it a new cookie
		ok = j.isAt(at, place, &e, x.address)
	} else if ok = j.count(at, x.address, 1); ok {
		e = session{id: given.id}
		e.move(at, x.address)
		place = j.sessions.add(e)
	}
	if !ok {
		return 0, e, false
	}
	j.handed.removeOf(network, given.id, func(value uint64) { j.sessions.learn(place, given.id, value, 0) })
	j.tellCookie(at, value, given.id, x)
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
func (j *Judge) give(at int64, lines []string, x *Visit) (toStranger bool) {
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
			j.tellCookie(at, h, x.session, x)
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

// session is what is remembered of a client whose cookie came back. Times are Unix
// seconds.
type session struct {
	id      uint32
	values  [valuesOfSession]uint64 // its cookies that were given or came back last, the last one last; 0: none
	names   [valuesOfSession]uint8  // of the cookies, hashed; 0: not known
	home    uint64                  // the address that it counts at, hashed; 0: none yet
	visitor uint64                  // as whom it is remembered, wherever it goes; 0: not yet
	counted int64                   // when it last counted as one of its home's; 0: never
	moves   int64                   // until when its moves are used up, see move
	newer   int32                   // neighbours by use; none: -1
	older   int32
}

const (
	// mostSessions is how many are remembered: 8 MB, and more for the table of their values.
	mostSessions = 1 << 16
	// valuesOfSession is how many cookies of a session are known. Sites that give a
	// new one or two with each answer, to pages that ask for several at once, need
	// more than one; and one client could push others out if there were no bound.
	valuesOfSession = 8
	// valuesOfName is how many of them have the same name, so that one that changes
	// leaves those that do not.
	valuesOfName = 4

	// moveEvery and movesAtOnce bound how often a session changes its address. A
	// phone in a train does it every few minutes, and a few times in a row where it
	// finds no rest. Those who share a cookie have it in turn, one at a time.
	moveEvery   = 2 * 60 // seconds
	movesAtOnce = 4
)

// sessions are those whose cookies came back, by their cookies, as keyed hashes.
// The one that was used least recently makes room. Cookies that were merely given
// are elsewhere (handedOut): who collects them pushes nobody out of here.
type sessions struct {
	mu     sync.Mutex // guards the following
	all    []session
	values map[uint64]int32 // the places of the sessions
	ids    map[uint32]int32 // the same, of those of one id the latest
	newest int32            // by use; holds if there is any
	oldest int32
}

// find returns the session that a cookie belongs to, and its place.
func (s *sessions) find(value uint64) (place int32, e session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	place, ok = s.values[value]
	if !ok {
		return 0, e, false
	}
	s.useLocked(place)
	s.all[place].use(value)
	return place, s.all[place], true
}

// with calls f with the session at a place, if it is still there.
func (s *sessions) with(place int32, id uint32, f func(*session)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(place) >= len(s.all) || s.all[place].id != id {
		return false
	}
	f(&s.all[place])
	return true
}

// add makes a session, with no cookie yet. Its place is the one of the session
// that was used least recently, when there are too many.
func (s *sessions) add(e session) (place int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values, s.ids = make(map[uint64]int32), make(map[uint32]int32)
	}
	if n := len(s.all); n < mostSessions {
		place = int32(n)
		s.all = append(s.all, session{})
		if n == 0 {
			s.newest, s.oldest = place, place
			e.newer, e.older = -1, -1
		} else {
			e.newer, e.older = -1, s.newest
			s.all[s.newest].newer, s.newest = place, place
		}
		s.all[place] = e
		s.ids[e.id] = place
		return place
	}
	place = s.oldest
	for _, value := range s.all[place].values {
		if value != 0 {
			delete(s.values, value)
		}
	}
	if id := s.all[place].id; s.ids[id] == place {
		delete(s.ids, id)
	}
	s.useLocked(place)
	e.newer, e.older = s.all[place].newer, s.all[place].older
	s.all[place] = e
	s.ids[e.id] = place
	return place
}

// findID returns a session whatever its cookies are, and its place.
func (s *sessions) findID(id uint32) (place int32, e session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if place, ok = s.ids[id]; ok {
		s.useLocked(place)
		e = s.all[place]
	}
	return place, e, ok
}

// learn adds a cookie to the session at a place. It tells whether the session is
// still there. A cookie that is another session's stays what it is: who gives the
// same to many gives none that tells them apart.
func (s *sessions) learn(place int32, id uint32, value uint64, name uint8) bool {
	return s.with(place, id, func(e *session) {
		if _, known := s.values[value]; known {
			return
		}
		if old := e.learn(value, name); old != 0 {
			delete(s.values, old)
		}
		s.values[value] = place
	})
}

// learn adds a cookie in the place of the oldest: of those of its name, if there are
// enough, else of all. It returns the one that is forgotten; 0: none.
func (e *session) learn(value uint64, name uint8) (old uint64) {
	out, alike := 0, 0
	for i := valuesOfSession - 1; i >= 0; i-- {
		if name == 0 || e.names[i] != name {
			continue
		}
		if alike++; alike == valuesOfName {
			out = i
		}
	}
	old = e.values[out]
	e.replace(out, value, name)
	return old
}

// use keeps a cookie that came back from being the next to be forgotten.
func (e *session) use(value uint64) {
	for i := range valuesOfSession / 2 {
		if e.values[i] == value {
			e.replace(i, value, e.names[i])
			return
		}
	}
}

// replace takes one cookie out and puts one behind all others.
func (e *session) replace(i int, value uint64, name uint8) {
	copy(e.values[i:], e.values[i+1:])
	copy(e.names[i:], e.names[i+1:])
	e.values[valuesOfSession-1], e.names[valuesOfSession-1] = value, name
}

// useLocked makes the session at a place the one that was used last.
func (s *sessions) useLocked(place int32) {
	if place == s.newest {
		return
	}
	e := &s.all[place]
	s.all[e.newer].older = e.older // there is one, as it is not the newest
	if e.older >= 0 {
		s.all[e.older].newer = e.newer
	} else {
		s.oldest = e.newer
	}
	s.all[s.newest].newer = place
	e.newer, e.older = -1, s.newest
	s.newest = place
}

// each calls f with all sessions, those that were used least recently first.
func (s *sessions) each(f func(*session)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return
	}
	for place := s.oldest; place >= 0; place = s.all[place].newer {
		f(&s.all[place])
	}
}

// mayMove tells whether a session may change its address now.
func (e *session) mayMove(now int64) bool {
	return e.home == 0 || e.moves <= now+(movesAtOnce-1)*moveEvery
}

// move makes an address the session's, and the one before it no longer.
func (e *session) move(now int64, home uint64) {
	if e.home != 0 {
		e.moves = max(e.moves, now) + moveEvery
	}
	e.home, e.counted = home, now
}

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

// removeOf removes all cookies of a session that was given them in a network.
func (h *handedOut) removeOf(network, id uint32, f func(value uint64)) {
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

const (
	maxCookies  = 32      // looked at, of one request
	maxCookie   = 4 << 10 // bytes of the header that are looked at
	leastSecret = 16      // bytes of a value that can tell people apart
	mostSecret  = 256     // bytes of a value that count
)

// eachCookie calls f with the name and value of each cookie of a request that
// may identify a session (RFC 6265, 4.2.1), until it returns false. Shorter
// values, such as a language, are shared by many.
func eachCookie(lines []string, f func(name, value string) bool) {
	n := 0
	for _, line := range lines {
		line = line[:min(len(line), maxCookie)]
		for line != "" && n < maxCookies {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			n++
			name, value, ok := strings.Cut(strings.Trim(pair, " \t"), "=")
			if !ok || !isSecret(value) {
				continue
			}
			if !f(name, value) {
				return
			}
		}
	}
}

// givenCookie returns what a line of Set-Cookie gives (RFC 6265, 4.1.1), if that
// may identify a session.
func givenCookie(line string) (name, value string, ok bool) {
	pair, _, _ := strings.Cut(line, ";")
	name, value, ok = strings.Cut(strings.Trim(pair, " \t"), "=")
	return name, value, ok && isSecret(value)
}

func isSecret(value string) bool { return len(value) >= leastSecret && len(value) <= mostSecret }
