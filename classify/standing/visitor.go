package standing

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tempomat/classify"
)

// visitor is what Judge knows about a client's visits. Times are Unix seconds.
type visitor struct {
	hash          uint64
	first, last   int64
	attestedUntil int64
	lastPage      int64
	sessions      float32 // for an address: the number of sessions recently in use there
	people        float32 // for an address: the probable number of people with these sessions
	given         float32 // for an address: recent answers that set a cookie for a client without a session
	pages, parts  float32 // recent ones
	attested      float32
	follows       int32 // parts that may still follow the latest pages; negative: the client requested pages as if they were parts

	told      classify.Evidence // evidence from other instances
	toldWorth float32           // the factor with which another instance's backend vouches
	toldUntil int64             // when both expire
}

const (
	mostVisitors  = 1 << 15 // 6 MB; half of them for visitors with evidence
	visitorShards = 64

	halfLife     = 10 * 60  // half-life of pages, parts and sessions, in seconds
	follow       = 30       // seconds after a page within which parts are evidence
	followSoon   = 20       // seconds after a page within which parts follow it
	followPage   = 64       // parts that may follow a page; few pages have more from their own site
	followMost   = 256      // parts that may follow several pages; a whole office may be one visitor
	followLeast  = -64 * 64 // the least value of visitor.follows
	enoughParts  = 1.5      // how many recent parts are evidence: slightly aged, two parts are worth this much
	partsOfPage  = 0.5      // how many parts are needed for each page; browsers have many parts in their caches
	cookiesBack  = 0.5      // the fraction of an address's cookies that must be sent back to be evidence
	vouchedFor   = 3600     // seconds for which the backend vouches for a client
	maxCompany   = 8        // the most clients that one address counts as
	mostAtOnce   = 15       // pages that a person may open at once
	mostRead     = 0.25     // pages per second that a person may read for a long time
	leastSession = 1.0 / 8  // the weight of one session after half an hour
	maxSessions  = 64       // sessions of one address in use at a time
)

// visitors holds the latest visitors. Visitors with and without evidence are in separate tables, so a flood of
// new addresses evicts only visitors without evidence.
type visitors [visitorShards]struct {
	sync.Mutex    // guards the fields below, and the visitors
	shown, others *simplelru.LRU[uint64, *visitor]
}

func newVisitors() *visitors {
	all := new(visitors)
	for i := range all {
		all[i].shown, _ = simplelru.NewLRU[uint64, *visitor](mostVisitors/visitorShards/2, nil) // fails only for a size below 1
		all[i].others, _ = simplelru.NewLRU[uint64, *visitor](mostVisitors/visitorShards/2, nil)
	}
	return all
}

// with calls f with a visitor while its shard is locked. The visitor may be new.
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

// peek returns a copy of a visitor, if there is one.
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

// each calls f with each visitor while the visitor's shard is locked.
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

// hasShown reports whether a visitor belongs in the table of those with evidence. This includes addresses with
// sessions, because evicting them would reset their number of sessions.
func (v *visitor) hasShown() bool {
	return v.parts >= enoughParts || v.attested > 0 || v.told != 0 || v.sessions >= 0.5
}

// see reduces the counts according to the time since the last visit.
func (v *visitor) see(now int64) {
	if now <= v.last {
		return
	}
	if v.pages > 0 || v.parts > 0 || v.sessions > 0 || v.given > 0 {
		d := float32(math.Exp2(-float64(now-v.last) / halfLife))
		v.pages, v.parts = v.pages*d, v.parts*d
		v.sessions, v.people, v.given = v.sessions*d, v.people*d, v.given*d
	}
	v.last = now
}

// evidence returns the evidence of visits here and at other instances.
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

// shown returns the evidence of visits here.
func (v *visitor) shown(now int64) (e classify.Evidence, attested float64) {
	v.see(now)
	if v.parts >= enoughParts && v.parts >= partsOfPage*v.pages {
		e |= classify.Parts
	}
	if v.sessions >= leastSession && v.sessions >= cookiesBack*v.given {
		e |= classify.Cookie // for an address, most of its clients send cookies back
	}
	if now < v.attestedUntil {
		e |= classify.Attested
	}
	return e, float64(v.attested)
}

// company returns the number of clients that an address counts as.
func (v *visitor) company(now int64) float64 {
	v.see(now)
	return max(1, min(float64(v.people), maxCompany))
}

// partOfAPerson returns how much a session adds to the number of people behind its address: less than 1 if it has
// requested more pages than a person reads, because many such sessions are hardly an office. The result decreases
// with the square of the pages, so a session whose page reloads itself every few seconds still counts.
func (v *visitor) partOfAPerson(now int64) float32 {
	v.see(now)
	age := float64(max(0, now-v.first)) / halfLife
	most := max(mostAtOnce, mostRead*halfLife/math.Ln2*(1-math.Exp2(-age))) // the value of pages at that rate
	part := min(1, most/max(1, float64(v.pages)))
	return float32(part * part)
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

// served records that the visitor was served a page.
func (v *visitor) served(now int64) {
	if now-v.lastPage > followSoon {
		v.follows = min(v.follows, 0) // parts of earlier pages no longer follow
	}
	v.lastPage = now
	v.follows = min(v.follows+followPage, followMost)
}

// follow reports whether a part belongs to the pages that were just served. If so, it counts the part.
func (v *visitor) follow(now int64) bool {
	if v.lastPage == 0 || now-v.lastPage > followSoon || v.follows <= 0 {
		return false
	}
	v.follows--
	return true
}

// pretend counts a request that looked like one for a part but was answered with a page. Otherwise a client
// could request all pages in this way, and all of them would go first. The client loses as many parts as a page
// allows, so if a browser once gets a page instead of an icon, its next page restores the normal state.
func (v *visitor) pretend() { v.follows = max(v.follows-followPage, followLeast) }

func (v *visitor) part(now int64, weight float32) {
	v.see(now)
	if v.lastPage > 0 && now-v.lastPage <= follow {
		v.parts += weight
	}
}

func seconds(now time.Time) int64 { return now.Unix() }

// Visits describes a client's visits, to explain its standing.
type Visits struct {
	First         time.Time
	Evidence      classify.Evidence
	Standing      float64 // the factor of its share according to that evidence
	Pages, Parts  float64 // recent pages and parts; each counts half after ten minutes
	ClientsBehind float64 // the number of clients behind the address, by its sessions
}

// Visits describes the visits of an address, given as an ID of the first class, not counting its sessions'
// visits. It changes nothing.
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

// faces is the number of clients without sessions that are distinguished behind one address.
const faces = 8

// face distinguishes clients without sessions behind one address by their User-Agents: 0 to 7. The hash is
// keyed, so no client can find out which others have the same face. All faces share their address's share, so
// a client gains nothing by inventing User-Agents.
func (j *Judge) face(agent []string) uint8 {
	if len(agent) == 0 {
		return 0
	}
	var buffer [classify.MaxAgentBytes + 32]byte
	return uint8(hashOf(append(j.key(buffer[:0], 'f'), agent[0][:min(len(agent[0]), classify.MaxAgentBytes)]...)) >> 8 % faces)
}
