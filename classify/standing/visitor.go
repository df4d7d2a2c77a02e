package standing

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tempomat/classify"
)

// visitor is what is remembered of a client's visits. Times are Unix seconds.
type visitor struct {
	hash          uint64
	first, last   int64
	attestedUntil int64
	lastPage      int64
	sessions      float32 // of an address: those that are in use there, recently
	given         float32 // for an address: recent pages that set a cookie for a client without one
	pages, parts  float32 // recently
	attested      float32
	follows       int32 // parts that may follow its latest pages; below 0: it asked for pages as parts

	told      classify.Evidence // what other instances have seen
	toldWorth float32           // worth there by a backend's word
	toldUntil int64             // when that ceases to count
}

const (
	mostVisitors  = 1 << 15 // 6 MB; half of them who have shown something
	visitorShards = 64

	lately       = 10 * 60  // half-life of pages and parts, seconds
	follow       = 30       // seconds within which a page's parts follow it, to prove something
	followSoon   = 20       // seconds within which they are parts of a page on a person's screen
	followPage   = 64       // parts of a page: few pages name more of their own site
	followMost   = 256      // of several pages, because an office's people are one visitor
	followLeast  = -64 * 64 // after all that may follow a page was asked for as a part, and was none
	enoughParts  = 1.5      // of them, recently: two, a little while ago
	partsOfPage  = 0.5      // and so many for each page: much of a page is in the browser's cache
	cookiesBack  = 0.5      // part of the given ones that must come back for an address to count as people's
	vouchedFor   = 3600     // seconds that the backend's word holds
	maxCompany   = 8        // clients that one address counts as at most, whatever comes from there
	leastSession = 1.0 / 8  // what is left of one that was used half an hour ago
	maxSessions  = 64       // of one address, in use at a time
)

// visitors are those that came last. Who has shown something and who has not are apart, so
// that a flood of addresses pushes out only its like.
type visitors [visitorShards]struct {
	sync.Mutex    // guards the following, and the visitors
	shown, others *simplelru.LRU[uint64, *visitor]
}

func newVisitors() *visitors {
	all := new(visitors)
	for i := range all {
		all[i].shown, _ = simplelru.NewLRU[uint64, *visitor](mostVisitors/visitorShards/2, nil) // it fails for a size below 1 only
		all[i].others, _ = simplelru.NewLRU[uint64, *visitor](mostVisitors/visitorShards/2, nil)
	}
	return all
}

// with calls f with a visitor, a new one if need be, under its shard's lock.
func (v *visitors) with(hash uint64, now int64, f func(*visitor)) {
	s := &v[hash>>8%visitorShards]
	s.Lock()
	defer s.Unlock()
	to, from := s.others, s.shown
	e, had := s.shown.Get(hash)
	if !had {
		if e, _ = s.others.Get(hash); e == nil {
			e = &visitor{hash: hash, first: now, last: now}
			s.others.Add(hash, e)
		}
		to, from = s.shown, s.others
	}
	if f(e); e.hasShown() != had {
		from.Remove(hash)
		to.Add(hash, e)
	}
}

// peek is a copy of what is remembered of a visitor; false: nothing is.
func (v *visitors) peek(hash uint64) (visitor, bool) {
	s := &v[hash>>8%visitorShards]
	s.Lock()
	defer s.Unlock()
	for _, in := range []*simplelru.LRU[uint64, *visitor]{s.shown, s.others} {
		if e, ok := in.Peek(hash); ok {
			return *e, true
		}
	}
	return visitor{}, false
}

// each calls f with all visitors, their shard locked.
func (v *visitors) each(f func(*visitor)) {
	for i := range v {
		s := &v[i]
		s.Lock()
		for _, e := range slices.Concat(s.others.Values(), s.shown.Values()) {
			f(e)
		}
		s.Unlock()
	}
}

// hasShown reports whether a visitor is kept before others. An address with sessions is, or these would be
// bounded no more.
func (v *visitor) hasShown() bool {
	return v.parts >= enoughParts || v.attested > 0 || v.told != 0 || v.sessions >= 0.5
}

// see lets the time pass.
func (v *visitor) see(now int64) {
	if now <= v.last {
		return
	}
	if v.pages > 0 || v.parts > 0 || v.sessions > 0 || v.given > 0 {
		d := float32(math.Exp2(-float64(now-v.last) / lately))
		v.pages, v.parts = v.pages*d, v.parts*d
		v.sessions, v.given = v.sessions*d, v.given*d
	}
	v.last = now
}

// evidence is what the visits say, here and at other instances.
func (v *visitor) evidence(now int64) (e classify.Evidence, attested float64) {
	e, attested = v.shown(now)
	if now >= v.toldUntil {
		v.told = 0
	}
	if e&classify.Attested == 0 && v.told&classify.Attested != 0 {
		attested = float64(v.toldWorth)
	}
	return e | v.told, attested
}

// shown is what the visits here say.
func (v *visitor) shown(now int64) (e classify.Evidence, attested float64) {
	v.see(now)
	if v.parts >= enoughParts && v.parts >= partsOfPage*v.pages {
		e |= classify.Parts
	}
	if v.sessions >= leastSession && v.sessions >= cookiesBack*v.given {
		e |= classify.Cookie // for an address: its clients mostly bring them back
	}
	if now < v.attestedUntil {
		e |= classify.Attested
	}
	return e, float64(v.attested)
}

// company is of how many clients an address is, as far as that counts.
func (v *visitor) company(now int64) float64 {
	v.see(now)
	return max(1, min(float64(v.sessions), maxCompany))
}

func (v *visitor) page(now int64, asPart bool) {
	v.see(now)
	v.pages++
	if asPart {
		v.pretend()
	} else {
		v.served(now)
	}
}

// served takes in that it was served a page.
func (v *visitor) served(now int64) {
	if now-v.lastPage > followSoon {
		v.follows = min(v.follows, 0) // what is left of pages long ago no longer counts
	}
	v.lastPage = now
	v.follows = min(v.follows+followPage, followMost)
}

// follow reports whether a part belongs to the pages that were just served; their number is
// bounded.
func (v *visitor) follow(now int64) bool {
	if v.lastPage == 0 || now-v.lastPage > followSoon || v.follows <= 0 {
		return false
	}
	v.follows--
	return true
}

// pretend takes in that a request for a part was answered by a page: a client that asks like that for all
// pages would have all of them go first. It takes away what a page gives, so a browser that once finds a
// page instead of an icon does not lose it for long.
func (v *visitor) pretend() { v.follows = max(v.follows-followPage, followLeast) }

func (v *visitor) part(now int64, weight float32) {
	v.see(now)
	if v.lastPage > 0 && now-v.lastPage <= follow {
		v.parts += weight
	}
}

func seconds(now time.Time) int64 { return now.Unix() }

// Visits is what is remembered of a client's visits, to explain its standing.
type Visits struct {
	First         time.Time
	Evidence      classify.Evidence
	Standing      float64 // what that multiplies its share by, without what a single request shows
	Pages, Parts  float64 // that it recently had: what was ten minutes ago counts half
	ClientsBehind float64 // number of clients behind the address, by its sessions
}

// Visits returns what is remembered of the visits of an address (an ID of the first class),
// without those of its sessions, which are remembered separately; false: nothing is. It changes
// nothing.
func (j *Judge) Visits(now time.Time, id string) (v Visits, ok bool) {
	at := seconds(now)
	e, ok := j.visitors.peek(j.hashOf(id))
	if !ok {
		return v, false
	}
	v.First = time.Unix(e.first, 0)
	var attested float64
	v.Evidence, attested = e.evidence(at)
	v.Standing = worth(v.Evidence, attested)
	v.Pages, v.Parts, v.ClientsBehind = float64(e.pages), float64(e.parts), e.company(at)
	return v, true
}

const (
	faces        = 8   // that people behind one address are told apart by
	longestAgent = 512 // bytes of a User-Agent that are looked at
)

// face distinguishes people without sessions behind one address by their User-Agents: 0 to 7.
// The hash has a key, so no client can find out which others share its face. There are few
// faces, and they share what their address has: a client that makes up User-Agents gets no
// more.
func (j *Judge) face(agent []string) uint8 {
	if len(agent) == 0 {
		return 0
	}
	var buffer [longestAgent + 32]byte
	return uint8(hashOf(append(j.key(buffer[:0], 'f'), agent[0][:min(len(agent[0]), longestAgent)]...)) >> 8 % faces)
}
