package standing

import (
	"time"

	"tempomat/classify"
)

// Visits is what is remembered of a client's visits, to explain its standing.
type Visits struct {
	First, Last   time.Time
	Evidence      classify.Evidence
	Standing      float64 // what that multiplies its share by, without what a single request shows
	Pages, Parts  float64 // that it lately had: what was ten minutes ago counts half
	Hours         int     // in which it asked for pages
	ClientsBehind float64 // of how many clients the address is, as its sessions show
}

// Visits tells what is remembered of the visits of an address, as the ID of the first
// class names it, but for those of its sessions, of which each is remembered alone; false:
// nothing is. It changes nothing.
func (j *Judge) Visits(now time.Time, id string) (v Visits, ok bool) {
	at := seconds(now)
	hash := j.hashOf(id)
	set := hash % visitorSets
	mu := &j.visitors.locks[set%visitorLocks].Mutex
	mu.Lock()
	defer mu.Unlock()
	for _, e := range j.visitors.sets[set] { // copies
		if e.hash != hash || at-e.last > forgotten {
			continue
		}
		v.First, v.Last = time.Unix(e.first, 0), time.Unix(e.last, 0)
		var attested float64
		v.Evidence, attested = e.evidence(at)
		v.Standing = worth(v.Evidence, attested)
		v.Pages, v.Parts, v.Hours, v.ClientsBehind = float64(e.pages), float64(e.parts), int(e.hours), e.company(at)
		return v, true
	}
	return v, false
}
