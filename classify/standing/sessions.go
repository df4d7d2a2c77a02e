package standing

import (
	"hash/crc32"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tempomat/classify"
	"tempomat/limiter"
)

// How a cookie makes a session.
//
// A cookie that comes back counts at one address (IPv6: one /64); otherwise a cookie that a
// fleet of crawlers shares would make each of them a client of its own. An address may change
// within its network (/24, IPv6: /48), as a phone's does. Its session moves with it, at once,
// because the old address may never be used again; there it no longer counts. So clients that
// share a cookie have one session among them, at one address at a time. And because it may only
// move a few times, most of them never have it.
//
// An address has a bounded number of sessions that are in use, wherever they were proven. A
// session counts for its address while it is in use, and fades when it is not; when it moves
// away it no longer counts. Beyond the bound there are no further sessions.

// longestName is how many bytes of a cookie's name tell it from others.
const longestName = 64

// recount is how long a session that is in use counts without a look.
const recount = 10 // seconds

// judgeCookies looks for a cookie that the site gave, and makes its session the
// client. Cookies that are other addresses' are passed over: among them may be one
// that the site gives to many.
func (j *Judge) judgeCookies(at int64, c *settings, lines []string, res *classify.Result, x *Visit) {
	eachCookie(lines, func(name, value string) bool {
		hash := j.hashOfCookie(x.client, name, value)
		e, isNews, ok := j.sessionOf(at, hash, res.Address, x)
		if !ok {
			return true
		}
		if isNews {
			j.tellCookie(at, hash, e.id, x)
		}
		res.Evidence |= classify.Cookie
		x.session = e.id
		if res.Keys()[0].Class == c.ClientClass && res.Prepend(limiter.Key{Class: c.SessionClass, ID: sessionID(res.Address, e.id)}) {
			x.visitor = j.inherit(at, x.address, e.visitor)
		}
		return false
	})
}

// sessionOf is the session of a cookie, if there is one at this address, and whether other
// instances are to be told of it.
func (j *Judge) sessionOf(at int64, value uint64, address string, x *Visit) (found session, isNews, ok bool) {
	s := &j.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	e, given := s.findLocked(value), handed{}
	if e == nil {
		if given, ok = j.handed.find(j.hashOfNetwork(x.client), value); !ok {
			return found, false, false
		}
		e = s.ofLocked(given, x.address)
	}
	isNews = given.value != 0 || at-e.counted >= recount
	if !j.isAt(at, e, x.address) {
		return found, false, false
	}
	if e.visitor == 0 { // what it has shown goes with it
		e.visitor = j.hashOf(sessionID(address, e.id))
	}
	if given.value != 0 {
		s.all.Add(e.id, e)
		j.handed.removeOf(given.network, given.id, func(value uint64) { s.learnLocked(e, value, 0) })
	}
	return *e, isNews, true
}

// ofLocked is the session of a cookie that was given and comes back from an address for the first time: the one
// at home there, one to which another instance gave it, or a new one. If several clients were given the same
// cookie, it gets another id.
func (s *sessions) ofLocked(given handed, address uint64) (e *session) {
	for _, id := range []uint32{given.id, idOf(given.value)} {
		x, known := s.all.Get(id)
		if !known {
			return &session{id: id}
		}
		if e = x; e.home == address {
			break
		}
	}
	return e
}

// idOf is the id of a session that was given a cookie first.
func idOf(value uint64) uint32 { return uint32(value>>32) | 1 }

// isAt reports whether a session is one at an address now: it is at home there and the
// address does not have too many, or it may move there.
func (j *Judge) isAt(at int64, e *session, address uint64) bool {
	staying, left := e.home == address, e.weight(at)
	weight := float32(1)
	switch {
	case staying && at-e.counted < recount:
		return true
	case staying:
		weight -= left
	case !e.mayMove(at):
		return false
	}
	if !j.count(at, address, weight) {
		return false
	}
	if staying {
		e.counted = at
		return true
	}
	if e.home != 0 {
		j.count(at, e.home, -left)
	}
	e.move(at, address)
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

// give remembers the cookies that an answer sets, and reports whether it set any for a client
// without a session. Sites change the value of a session's cookie, some with every answer: the
// new one belongs to the same session.
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
		if x.session != 0 && j.sessions.learn(x.session, h, hashOfName(name)) {
			j.tellCookie(at, h, x.session, x)
			continue
		}
		if id == 0 {
			id, toStranger = idOf(h), true
		}
		if network == 0 {
			network = j.hashOfNetwork(x.client)
		}
		if !j.sessions.has(h) {
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
func hashOfName(name string) uint8 { return uint8(crc32.ChecksumIEEE([]byte(name))>>24) | 1 }

// hashOfNetwork is that of the network that cookies are given to.
func (j *Judge) hashOfNetwork(client netip.Addr) uint32 {
	var buffer [64]byte
	return uint32(hashOf(appendProofNetwork(j.key(buffer[:0], 'n'), client)) >> 32)
}

// appendProofNetwork appends the network within which a cookie proves a client.
func appendProofNetwork(dst []byte, client netip.Addr) []byte {
	raw := classify.NetworkOf(client).Addr().As16()
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
}

const (
	// mostSessions is how many are remembered: 20 MB, and more for the table of their values.
	mostSessions = 1 << 16
	// valuesOfSession is how many cookies of a session are known. Sites that give a
	// new one or two with each answer, to pages that ask for several at once, need
	// more than one; and one client could push others out if there were no bound.
	valuesOfSession = 8
	// valuesOfName is how many of them may have the same name, so one that changes doesn't push
	// out those that do not.
	valuesOfName = 4

	// moveEvery and movesAtOnce bound how often a session changes its address. A
	// phone in a train does it every few minutes, and a few times in a row where it
	// finds no rest. Those who share a cookie have it in turn, one at a time.
	moveEvery   = 2 * 60 // seconds
	movesAtOnce = 4
)

// sessions are those whose cookies came back, by their ids, and the cookies, as keyed hashes.
// The session that was used least recently makes room. Cookies that were merely given are
// elsewhere (handedOut): a client that collects them pushes none out of here.
type sessions struct {
	mu     sync.Mutex // guards the following, and the sessions
	all    *simplelru.LRU[uint32, *session]
	values map[uint64]*session
}

func newSessions() sessions {
	values := make(map[uint64]*session)
	all, _ := simplelru.NewLRU(mostSessions, func(_ uint32, e *session) { // it fails for a size below 1 only
		for _, value := range e.values {
			delete(values, value)
		}
	})
	return sessions{all: all, values: values}
}

// findLocked is the session that a cookie belongs to, which is used; nil: there is none.
func (s *sessions) findLocked(value uint64) *session {
	e := s.values[value]
	if e != nil {
		s.all.Get(e.id)
		e.use(value)
	}
	return e
}

// has reports whether a cookie is a session's.
func (s *sessions) has(value uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[value] != nil
}

// learn adds a cookie to a session, and tells whether that is still there.
func (s *sessions) learn(id uint32, value uint64, name uint8) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.all.Peek(id)
	if ok {
		s.learnLocked(e, value, name)
	}
	return ok
}

// learnLocked adds a cookie to a session. A cookie of another session stays there: a site that
// gives many clients the same cookie gives none that distinguishes them.
func (s *sessions) learnLocked(e *session, value uint64, name uint8) {
	if s.values[value] == nil {
		delete(s.values, e.learn(value, name))
		s.values[value] = e
	}
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

// mayMove reports whether a session may change its address now.
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
	value   uint64
	id      uint32 // of the session that it will be of
	network uint32 // a part of the network's hash
	to      uint32 // a part of the address's hash
}

const (
	mostHanded      = 1 << 17 // 3 MB, and up to 13 MB if each is of another network
	handedOfNetwork = 256
	handedOfAddress = 128
)

// handedOut are the cookies that the site gave, as keyed hashes, until they come back. A client
// that collects cookies without bringing them back pushes out its own, then its neighbors', and
// from other networks only those that got none for long.
type handedOut struct {
	mu  sync.Mutex                       // guards the following
	of  *simplelru.LRU[uint32, []handed] // by network; the latest given is the last
	all int
}

func newHandedOut() handedOut {
	of, _ := simplelru.NewLRU[uint32, []handed](mostHanded+1, nil) // never full: put makes room
	return handedOut{of: of}
}

// put remembers a cookie.
func (h *handedOut) put(e handed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	were, _ := h.of.Peek(e.network)
	own, first := 0, 0 // of the same address
	is := slices.DeleteFunc(were, func(x handed) bool { return x.value == e.value })
	for i, x := range slices.Backward(is) {
		if x.to == e.to {
			own, first = own+1, i
		}
	}
	switch {
	case own >= handedOfAddress:
		is = slices.Delete(is, first, first+1)
	case len(is) >= handedOfNetwork:
		is = slices.Delete(is, 0, 1)
	}
	h.of.Add(e.network, append(is, e))
	h.all += len(is) + 1 - len(were)
	for h.all > mostHanded {
		_, oldest, _ := h.of.RemoveOldest()
		h.all -= len(oldest)
	}
}

// find returns a cookie that was given to a network.
func (h *handedOut) find(network uint32, value uint64) (handed, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, _ := h.of.Peek(network)
	if i := slices.IndexFunc(all, func(e handed) bool { return e.value == value }); i >= 0 {
		return all[i], true
	}
	return handed{}, false
}

// removeOf removes all cookies of a session that was given them in a network.
func (h *handedOut) removeOf(network, id uint32, f func(value uint64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, _ := h.of.Peek(network)
	left := slices.DeleteFunc(all, func(e handed) bool {
		if e.id == id {
			f(e.value)
		}
		return e.id == id
	})
	h.all += len(left) - len(all)
	if len(left) == 0 {
		h.of.Remove(network)
	} else {
		h.of.Add(network, left)
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
