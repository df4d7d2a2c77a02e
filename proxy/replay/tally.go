package replay

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// remarkable is the delay from which a request counts as delayed, the same as in the sidecar's
// own log.
const remarkable = 100 * time.Millisecond

const (
	keysKept  = 1 << 14 // of a class; then the half that used the least is forgotten
	hoursKept = 10_000  // then the last one takes all the rest
)

// tally counts what became of requests: by class and key, and by hour.
type tally struct {
	epoch   time.Time
	classes []*class
	hours   map[time.Time]*Hour
	latest  *Hour // that was asked for
	total   Total
	from    time.Duration // negative: nothing came yet
	to      time.Duration
}

// class is what became of the requests of one.
type class struct {
	name string
	sum  Key
	seen int // keys, those counted again that were forgotten
	keys map[string]*Key
}

func newTally(epoch time.Time, s Setup) *tally {
	t := &tally{epoch: epoch, from: -1, hours: make(map[time.Time]*Hour)}
	for _, info := range s.Policy.Classes {
		if !info.Budget.External {
			t.classes = append(t.classes, &class{name: info.Name, keys: make(map[string]*Key)})
		}
	}
	return t
}

// hour is the one of a time.
func (t *tally) hour(at time.Duration) *Hour {
	begin := t.epoch.Add(at).Truncate(time.Hour)
	if t.latest != nil && t.latest.Begin.Equal(begin) {
		return t.latest
	}
	h := t.hours[begin]
	switch {
	case h != nil:
	case len(t.hours) >= hoursKept:
		return t.latest
	default:
		h = &Hour{Begin: begin}
		t.hours[begin] = h
	}
	t.latest = h
	return h
}

// passed is told that the backend has used so many CPU-seconds until now.
func (t *tally) passed(now time.Duration, used float64) {
	t.to = max(t.to, now)
	t.hour(now).CPUSeconds += used
	t.total.CPUSeconds += used
}

// asked takes in a request as it comes.
func (t *tally) asked(j *job) {
	if t.from < 0 {
		t.from = j.came
	}
	t.to = max(t.to, j.came)
	t.total.Requests++
	t.hour(j.came).Requests++
}

// over takes in the end of a request.
func (t *tally) over(j *job, o outcome) {
	if j.Who.Exempt {
		t.total.Exempt++
		return
	}
	if j.Who.TrustedPeer {
		t.total.Trusted++
	}
	waited := j.waited
	if o == served {
		waited += j.HoldFor
	}
	h := t.hour(j.came)
	g, sum := &h.Known, &t.total.Known
	if j.Stranger() {
		g, sum = &h.Strangers, &t.total.Strangers
	}
	g.add(waited, o)
	sum.add(waited, o)
	for _, c := range t.classes {
		for _, id := range j.Who.Keys() {
			if id.Class == c.name {
				owes := j.Verdict.Reason == limiter.Debt && j.Verdict.Key.Class == c.name
				c.sum.add(j, waited, o, owes)
				c.key(id.ID).add(j, waited, o, owes)
			}
		}
	}
}

// add counts a request of a key.
func (k *Key) add(j *job, waited time.Duration, o outcome, owes bool) {
	k.Requests++
	switch {
	case o != served:
		k.Refused++
	case waited >= remarkable:
		k.Delayed++
	}
	if o == served {
		k.CPUSeconds += j.cpu
	}
	if owes {
		k.Owing++
	}
	k.Longest = max(k.Longest, waited.Seconds())
}

// key is the one of that name, a new one if need be.
func (c *class) key(id string) *Key {
	if k := c.keys[id]; k != nil {
		return k
	}
	if len(c.keys) >= keysKept {
		for _, k := range c.top(keysKept)[keysKept/2:] {
			delete(c.keys, k.ID)
		}
	}
	c.seen++
	k := &Key{ID: strings.Clone(id)} // it is a part of all that is known of a request
	c.keys[k.ID] = k
	return k
}

// worth orders keys, those first that used the most.
func worth(a, b Key) int {
	return cmp.Or(cmp.Compare(b.CPUSeconds, a.CPUSeconds), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.ID, b.ID))
}

// top are the keys that used the most.
func (c *class) top(n int) (keys []Key) {
	for _, k := range c.keys {
		keys = append(keys, *k)
	}
	slices.SortFunc(keys, worth)
	return keys[:min(n, len(keys))]
}

// Report is what a replay found. Times are seconds.
type Report struct {
	Lines   Lines     `json:"lines"`
	From    time.Time `json:"from"` // the first request, and the last moment that anything ran
	To      time.Time `json:"to"`
	CPUs    float64   `json:"cpus"`
	Workers int       `json:"workers"`
	Mode    string    `json:"mode"`
	Total   Total     `json:"total"`
	Classes []Class   `json:"classes"`
	Hours   []*Hour   `json:"hours"` // hours with requests that came or ran
}

// Total is all requests.
type Total struct {
	Requests   int     `json:"requests"`
	Exempt     int     `json:"exempt"`
	Trusted    int     `json:"trusted"`    // requests whose address is a trusted proxy's, so probably not their client's
	CPUSeconds float64 `json:"cpuSeconds"` // that the simulated backend used
	Known      Group   `json:"known"`
	Strangers  Group   `json:"strangers"`
}

// Group is what became of the requests of known clients, or of strangers.
type Group struct {
	Requests   int     `json:"requests"`
	Delayed    int     `json:"delayed"` // served, after Remarkable or longer
	Refused    int     `json:"refused"`
	TurnedAway int     `json:"turnedAway"` // by the backend, whose workers were all taken
	P95        float64 `json:"p95"`        // of the waits of those who were delayed, about
	Longest    float64 `json:"longest"`    // wait of one who was served
	waits      telemetry.Histogram
}

func (g *Group) add(waited time.Duration, o outcome) {
	g.Requests++
	switch o {
	case refused:
		g.Refused++
		return
	case turnedAway:
		g.TurnedAway++
		return
	case served:
	}
	g.Longest = max(g.Longest, waited.Seconds())
	if waited >= remarkable {
		g.Delayed++
		g.waits.Add(waited.Seconds(), 1)
		g.P95 = min(g.waits.Quantile(0.95), g.Longest)
	}
}

// Hour is what happened in one.
type Hour struct {
	Begin      time.Time `json:"begin"`
	Requests   int       `json:"requests"` // that came in it
	CPUSeconds float64   `json:"cpuSeconds"`
	Busy       float64   `json:"busy"` // part of the CPUs that was used, 0 to 1
	Known      Group     `json:"known"`
	Strangers  Group     `json:"strangers"`
}

// Key is what became of the requests of one key, or of all of a class.
type Key struct {
	ID         string  `json:"id,omitempty"`
	Requests   int     `json:"requests"`
	Delayed    int     `json:"delayed"`
	Owing      int     `json:"owing"`   // of them and of the refused, because this class owed
	Refused    int     `json:"refused"` // or rejected
	CPUSeconds float64 `json:"cpuSeconds"`
	Longest    float64 `json:"longest"` // wait
}

// Class is what became of the requests of a class.
type Class struct {
	Class string `json:"class"`
	Keys  int    `json:"keys"` // about, if there are more than are remembered
	Key
	Top []Key `json:"top"` // the keys that used the most
}

// topKeys is how many keys of a class are told.
const topKeys = 20

func (p *player) report() *Report {
	t := p.tally
	r := &Report{
		Lines: p.lines.counts, From: t.epoch.Add(t.from), To: t.epoch.Add(t.to),
		CPUs: p.setup.CPUs, Workers: p.setup.Workers, Mode: p.setup.Policy.Mode.String(),
		Total: t.total,
		Hours: slices.SortedFunc(maps.Values(t.hours), func(a, b *Hour) int { return a.Begin.Compare(b.Begin) }),
	}
	for _, h := range r.Hours {
		begin, end := h.Begin, h.Begin.Add(time.Hour)
		if begin.Before(r.From) {
			begin = r.From
		}
		if end.After(r.To) {
			end = r.To
		}
		if d := end.Sub(begin).Seconds(); d > 0 {
			h.Busy = min(1, h.CPUSeconds/(d*r.CPUs))
		}
	}
	for _, c := range t.classes {
		if c.sum.Requests > 0 {
			r.Classes = append(r.Classes, Class{Class: c.name, Keys: c.seen, Key: c.sum, Top: c.top(topKeys)})
		}
	}
	return r
}
