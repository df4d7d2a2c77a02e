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
// A cookie that a client sends back counts at only one address (IPv6: one /64). Otherwise many crawlers could
// share a cookie, and each of them would be a client of its own. The address of a phone may change within its
// network (/24, IPv6: /48). The session then moves to the new address at once and no longer counts at the old
// one, which may never be used again. Clients that share a cookie therefore share one session, which is at one
// address at a time. Because a session may move only a few times, most of these clients never have it.
//
// The number of sessions in use at an address is limited, wherever they began. Each session adds to that
// number while it is in use, and gradually less afterwards. At the limit, an address gets no further sessions.

// longestName is the most bytes of a cookie's name that are used.
const longestName = 64

// recount is the time for which a session counts as in use before its weight is renewed.
const recount = 10 // seconds

// judgeCookies looks for a cookie that the site has set and makes its session the client. It skips cookies
// whose sessions are at other addresses, because the site may set the same cookie for many clients.
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

// sessionOf returns the session of a cookie, if the cookie has one that counts at this address. isNews is true
// if other instances must be informed.
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
	if e.visitor == 0 { // the hash doesn't change when the session moves, so the session keeps its evidence
		e.visitor = j.hashOf(sessionID(address, e.id))
	}
	if given.value != 0 {
		s.all.Add(e.id, e)
		j.handed.removeOf(given.network, given.id, func(value uint64) { s.learnLocked(e, value, 0) })
	}
	return *e, isNews, true
}

// ofLocked returns the session for a cookie that a client sends back from an address for the first time: a
// session at that address, one that another instance reported, or a new one. If the site set the cookie for
// several clients, the new session gets a different id.
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

// idOf returns the id of a session that begins with this cookie.
func idOf(value uint64) uint32 { return uint32(value>>32) | 1 }

// isAt reports whether a session currently counts at an address. A session whose home is a different address moves
// to this one if it has moves left. A session doesn't count at an address with too many sessions.
func (j *Judge) isAt(at int64, e *session, address uint64) bool {
	staying, left := e.home == address, e.weight(at)
	switch {
	case staying && at-e.counted < recount:
		return true
	case !staying && !e.mayMove(at):
		return false
	}
	part, was := j.partOfAPerson(at, e), e.part
	if staying {
		if j.count(at, address, 1-left, part-was*left) {
			e.counted, e.part = at, part
			return true
		}
		return false
	}
	if !j.count(at, address, 1, part) {
		return false
	}
	if e.home != 0 {
		j.count(at, e.home, -left, -was*left)
	}
	e.part = part
	e.move(at, address)
	return true
}

// partOfAPerson returns how much a session adds to the number of people, given the pages that it requests.
func (j *Judge) partOfAPerson(at int64, e *session) (part float32) {
	part = 1
	if e.visitor != 0 {
		j.visitors.with(e.visitor, at, func(v *visitor) { part = v.partOfAPerson(at) })
	}
	return part
}

// weight returns how much the session still adds to the number of sessions at its home, 0 to 1.
func (e *session) weight(at int64) float32 {
	if e.counted == 0 {
		return 0
	}
	return float32(math.Exp2(-float64(max(0, at-e.counted)) / halfLife))
}

// count adds weight to the number of sessions at an address, and people to the number of people behind it. If there
// would be too many sessions, it adds nothing and returns false.
func (j *Judge) count(at int64, address uint64, weight, people float32) (may bool) {
	j.visitors.with(address, at, func(v *visitor) {
		v.see(at)
		if may = weight <= 0 || v.sessions+weight <= maxSessions; may {
			v.sessions, v.people = max(0, v.sessions+weight), max(0, v.people+people)
		}
	})
	return may
}

// sessionID returns the ID of a session's key.
func sessionID(address string, id uint32) string {
	var buffer [64]byte
	return string(strconv.AppendUint(append(append(buffer[:0], address...), '#'), uint64(id), 16))
}

// inherit copies the last page of an address to a new session, because parts of that page may be requested
// with the new cookie. If the address's parts are evidence, the session also begins with some: many sites set
// the first cookie at the login form, and a browser doesn't reload the parts that it has from earlier pages.
// They are too few for many pages, so a crawler in an office gains little from its colleagues' parts. inherit
// returns the session's hash.
func (j *Judge) inherit(at int64, address, session uint64) uint64 {
	isNew := false
	j.visitors.with(session, at, func(v *visitor) { isNew = v.lastPage == 0 })
	if !isNew {
		return session
	}
	var page int64
	var parts float32
	j.visitors.with(address, at, func(v *visitor) {
		page = v.lastPage
		if shown, _ := v.shown(at); shown&classify.Parts != 0 {
			parts = min(v.parts, 2*enoughParts)
		}
	})
	j.visitors.with(session, at, func(v *visitor) {
		if v.lastPage == 0 && page > 0 {
			v.served(page)
			v.pages, v.parts = 1, parts
		}
	})
	return session
}

// give stores the cookies that an answer sets, and reports whether it set any for a client without a session.
// Some sites change the value of a session's cookie with every answer. The new value then belongs to the same
// session.
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

// hashOfCookie hashes a cookie together with the network of its client.
func (j *Judge) hashOfCookie(client netip.Addr, name, value string) uint64 {
	var buffer [512]byte
	text := appendProofNetwork(j.key(buffer[:0], 'v'), client)
	text = append(append(text, name[:min(len(name), longestName)]...), 0)
	return hashOf(append(text, value...))
}

// hashOfName returns a short hash of a cookie's name. It is never 0, and rarely the same for two names.
func hashOfName(name string) uint8 { return uint8(crc32.ChecksumIEEE([]byte(name))>>24) | 1 }

// hashOfNetwork hashes the network of a client.
func (j *Judge) hashOfNetwork(client netip.Addr) uint32 {
	var buffer [64]byte
	return uint32(hashOf(appendProofNetwork(j.key(buffer[:0], 'n'), client)) >> 32)
}

// appendProofNetwork appends the network in which a cookie is valid as evidence.
func appendProofNetwork(dst []byte, client netip.Addr) []byte {
	raw := classify.NetworkOf(client).Addr().As16()
	return append(dst, raw[:]...)
}

// session is a client that has sent back a cookie. Times are Unix seconds.
type session struct {
	id      uint32
	values  [valuesOfSession]uint64 // hashes of its latest cookies, the latest at the end; 0: none
	names   [valuesOfSession]uint8  // hashes of the names of these cookies; 0: unknown
	home    uint64                  // hash of the address at which it counts; 0: none yet
	visitor uint64                  // hash under which its evidence is stored; doesn't change when the session moves; 0: none yet
	counted int64                   // when it was last counted at its home; 0: never
	part    float32                 // how much it then added to the number of people at its home
	moves   int64                   // when it may make all its moves again; see move
}

const (
	// mostSessions is the most sessions that are kept. They take 20 MB, plus the table of their values.
	mostSessions = 1 << 16
	// valuesOfSession is the most cookies of a session that are stored. One isn't enough, because some sites set
	// one or two with each answer, and browsers send several requests for a page at once.
	valuesOfSession = 8
	// valuesOfName is the most of these that may have the same name. Otherwise a cookie that changes often would
	// displace those that stay the same.
	valuesOfName = 4

	// moveEvery and movesAtOnce limit how often a session may change its address. A phone on a train changes
	// it every few minutes, and sometimes a few times in a row.
	moveEvery   = 2 * 60 // seconds
	movesAtOnce = 4
)

// sessions holds sessions by their ids and by the hashes of their cookies. If it is full, it evicts the least
// recently used session. Cookies that no client has sent back yet are in handedOut instead, so a client that only
// collects cookies evicts no session.
type sessions struct {
	mu     sync.Mutex // guards the fields below, and the sessions
	all    *simplelru.LRU[uint32, *session]
	values map[uint64]*session
}

func newSessions() sessions {
	values := make(map[uint64]*session)
	all, _ := simplelru.NewLRU(mostSessions, func(_ uint32, e *session) { // fails only for a size below 1
		for _, value := range e.values {
			delete(values, value)
		}
	})
	return sessions{all: all, values: values}
}

// findLocked returns the session of a cookie and marks both as used. It returns nil if there is none.
func (s *sessions) findLocked(value uint64) *session {
	e := s.values[value]
	if e != nil {
		s.all.Get(e.id)
		e.use(value)
	}
	return e
}

// has reports whether a cookie belongs to a session.
func (s *sessions) has(value uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[value] != nil
}

// learn adds a cookie to a session, and reports whether that session still exists.
func (s *sessions) learn(id uint32, value uint64, name uint8) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.all.Peek(id)
	if ok {
		s.learnLocked(e, value, name)
	}
	return ok
}

// learnLocked adds a cookie to a session, unless another session has it. A cookie that a site sets for many
// clients doesn't distinguish them.
func (s *sessions) learnLocked(e *session, value uint64, name uint8) {
	if s.values[value] == nil {
		delete(s.values, e.learn(value, name))
		s.values[value] = e
	}
}

// learn replaces the oldest cookie: the oldest with the same name if there are valuesOfName of them, otherwise
// the oldest of all. It returns the replaced cookie, or 0 if there was none.
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

// use moves a cookie from the older half of the list to the end, because the client has sent it back and it
// must not be replaced next.
func (e *session) use(value uint64) {
	for i := range valuesOfSession / 2 {
		if e.values[i] == value {
			e.replace(i, value, e.names[i])
			return
		}
	}
}

// replace removes the cookie at i and appends another one.
func (e *session) replace(i int, value uint64, name uint8) {
	copy(e.values[i:], e.values[i+1:])
	copy(e.names[i:], e.names[i+1:])
	e.values[valuesOfSession-1], e.names[valuesOfSession-1] = value, name
}

// mayMove reports whether a session may change its address now.
func (e *session) mayMove(now int64) bool {
	return e.home == 0 || e.moves <= now+(movesAtOnce-1)*moveEvery
}

// move makes an address the session's home. Each move uses up one of the session's free moves.
func (e *session) move(now int64, home uint64) {
	if e.home != 0 {
		e.moves = max(e.moves, now) + moveEvery
	}
	e.home, e.counted = home, now
}

// handed is a cookie that the site has set and that no client has sent back yet.
type handed struct {
	value   uint64
	id      uint32 // of the session that will begin with the cookie
	network uint32 // part of the hash of the client's network
	to      uint32 // part of the hash of the client's address
}

const (
	mostHanded      = 1 << 17 // 3 MB, or up to 13 MB if each is for a different network
	handedOfNetwork = 256
	handedOfAddress = 128
)

// handedOut stores the hashes of cookies that the site has set, until a client sends them back. A client that
// only collects cookies first evicts its own cookies and then those of its network. It evicts cookies of
// another network only if that network hasn't received a cookie for a long time.
type handedOut struct {
	mu  sync.Mutex                       // guards the fields below
	of  *simplelru.LRU[uint32, []handed] // by network, the latest cookie last
	all int
}

func newHandedOut() handedOut {
	of, _ := simplelru.NewLRU[uint32, []handed](mostHanded+1, nil) // never full, because put makes room
	return handedOut{of: of}
}

// put stores a cookie.
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

// find returns a cookie that was set for a network.
func (h *handedOut) find(network uint32, value uint64) (handed, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, _ := h.of.Peek(network)
	if i := slices.IndexFunc(all, func(e handed) bool { return e.value == value }); i >= 0 {
		return all[i], true
	}
	return handed{}, false
}

// removeOf removes a network's cookies that would begin the session with this id, and calls f with each.
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
	maxCookies  = 32      // cookies of one request that are read
	maxCookie   = 4 << 10 // bytes of a line that are read
	leastSecret = 16      // bytes of the shortest value that can identify a session
	mostSecret  = 256     // bytes of the longest such value
)

// eachCookie calls f with each cookie of a request that may identify a session (RFC 6265, 4.2.1), until f
// returns false. It skips short values, such as a language, which many clients share.
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

// givenCookie parses the cookie in a Set-Cookie line (RFC 6265, 4.1.1). ok is false if it can't identify a
// session.
func givenCookie(line string) (name, value string, ok bool) {
	pair, _, _ := strings.Cut(line, ";")
	name, value, ok = strings.Cut(strings.Trim(pair, " \t"), "=")
	return name, value, ok && isSecret(value)
}

func isSecret(value string) bool { return len(value) >= leastSecret && len(value) <= mostSecret }
