package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// remarkable is the delay from which on a request counts as delayed, as in the
// sidecar's own log.
const remarkable = 100 * time.Millisecond

const (
	keysKept  = 1 << 14 // of a class; then the half that used the least is forgotten
	hoursKept = 10_000  // then the last one takes all the rest
)

// tally counts what became of requests: by class and key, and by hour.
type tally struct {
	cpus    float64
	epoch   time.Time
	classes []*class
	hours   []*Hour
	latest  *Hour         // that was asked for
	since   time.Duration // when it begins
	total   Total
	from    time.Duration
	to      time.Duration
}

// class is what became of the requests of one.
type class struct {
	info  limiter.ClassInfo
	burst float32
	rates [rungs]float32
	sum   Key
	seen  int // keys, those counted again that were forgotten
	keys  map[string]*key
	needs needs
	buf   []*key
}

// key is one member of a class.
type key struct {
	Key
	accounts
	known    int // requests of a browser that was no stranger
	counted  bool
	counting uint8 // the need that it is counted with
}

func newTally(epoch time.Time, s Setup) *tally {
	t := &tally{cpus: s.CPUs, epoch: epoch, from: -1}
	for _, info := range s.Policy.Classes {
		if info.Budget.External {
			continue
		}
		t.classes = append(t.classes, &class{
			info: info, burst: float32(info.Budget.Burst.Seconds()), rates: rates(s.CPUs), keys: make(map[string]*key),
		})
	}
	return t
}

func (t *tally) class(name string) (i int, c *class) {
	for i, c := range t.classes {
		if c.info.Name == name {
			return i, c
		}
	}
	return 0, nil
}

// hour is the one of a time.
func (t *tally) hour(at time.Duration) *Hour {
	if t.latest != nil && at >= t.since && at < t.since+time.Hour {
		return t.latest
	}
	begin := t.epoch.Add(at).Truncate(time.Hour)
	last := len(t.hours) - 1
	// Times only grow but for those of requests that end in a later hour than they
	// came in.
	i, found := slices.BinarySearchFunc(t.hours, begin, func(h *Hour, b time.Time) int { return h.Begin.Compare(b) })
	switch {
	case found:
	case len(t.hours) >= hoursKept:
		i = last
	default:
		t.hours = slices.Insert(t.hours, i, &Hour{Begin: begin})
	}
	t.latest, t.since = t.hours[i], begin.Sub(t.epoch)
	return t.latest
}

// passed implements observer.
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
	t.total.AskedCPUSeconds += j.cpu
	t.hour(j.came).Requests++
}

// over implements observer.
func (t *tally) over(now time.Duration, j *job, o outcome) {
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
	t.keys(j, waited, o)
}

// keys counts a request for its keys, and keeps the accounts that shares are proposed
// by.
func (t *tally) keys(j *job, waited time.Duration, o outcome) {
	known, usual := j.browser && !j.Stranger(), false
	for _, id := range j.Who.Keys() {
		i, c := t.class(id.Class)
		if c == nil {
			continue
		}
		k := c.key(j.came, id.ID)
		owes := j.Verdict.Reason == limiter.Debt && j.Verdict.Key.Class == id.Class
		c.sum.add(j, waited, o, owes)
		k.add(j, waited, o, owes)
		switch {
		case i == 0:
			if known {
				k.known++
			}
			k.charge(j.came, j.cpu, &c.rates, c.burst)
			c.judge(k, k.Requests >= usualRequests && 2*k.known > k.Requests)
			usual = known && int(k.need) <= max(c.needs.usual(), rungOf(c.info.Budget.CPUs/t.cpus))
		case usual:
			k.charge(j.came, j.cpu, &c.rates, c.burst)
			c.judge(k, true)
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

// judge counts a key's need, if it is one that counts.
func (c *class) judge(k *key, counts bool) {
	if k.counted == counts && k.counting == k.need {
		return
	}
	if k.counted {
		c.needs[k.counting]--
	}
	if k.counted = counts; counts {
		k.counting = k.need
		c.needs[k.counting]++
	}
}

// key is the one of that name, a new one if need be.
func (c *class) key(now time.Duration, id string) *key {
	if k := c.keys[id]; k != nil {
		return k
	}
	if len(c.keys) >= keysKept {
		c.forget()
	}
	c.seen++
	k := &key{Key: Key{ID: strings.Clone(id)}} // it is a part of all that is known of a request
	k.open(now, c.burst)
	c.keys[k.ID] = k
	return k
}

// forget makes room: the half of the keys that asked for the least CPU time goes.
// Their needs stay counted.
func (c *class) forget() {
	c.buf = c.buf[:0]
	for _, k := range c.keys {
		c.buf = append(c.buf, k)
	}
	slices.SortFunc(c.buf, worth)
	for _, k := range c.buf[len(c.buf)/2:] {
		delete(c.keys, k.ID)
	}
}

// worth orders keys, those first that used the most.
func worth(a, b *key) int {
	return cmp.Or(cmp.Compare(b.CPUSeconds, a.CPUSeconds), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.ID, b.ID))
}

// top are the keys that used the most, or were refused the most.
func (c *class) top(n int) (keys []Key) {
	c.buf = c.buf[:0]
	for _, k := range c.keys {
		c.buf = append(c.buf, k)
	}
	slices.SortFunc(c.buf, worth)
	for _, k := range c.buf[:min(n, len(c.buf))] {
		keys = append(keys, k.Key)
	}
	return keys
}

// How shares are proposed.
//
// A key owes nothing as long as what it uses is covered by what it earns, its share of
// the CPUs, and by the burst that it has saved up. So for each key its account is kept
// as it would be with each of some shares, and its need is the least of these with
// which it never owed anything: with that, nothing that it did was ever delayed for
// its own sake.
//
// Usual clients are those keys of the first class, the addresses, that asked at least
// usualRequests times, mostly as browsers by their User-Agents that were no strangers to
// the gate, and are not among the few with the greatest need: one in fewIn, and at least
// one. The share that is proposed
// for addresses is the greatest need of a usual one. Of the coarser classes, networks
// and User-Agents, only that is counted what clients asked for that were usual so far,
// so that a crawler's use makes nobody's share; and the share that is proposed is the
// greatest need of all keys.
//
// What counts is what was asked for, whatever the replay made of it.
const (
	usualRequests = 5
	fewIn         = 50
)

// ladder are the shares that are tried.
func ladder() [rungs]float64 {
	return [rungs]float64{0.01, 0.02, 0.03, 0.05, 0.075, 0.10, 0.15, 0.20, 0.25, 0.35, 0.50, 0.70, 1}
}

// rungs is how many shares are tried. A need of rungs is beyond the whole machine.
const rungs = 13

// accounts are those of one key, one for each share that is tried, in CPU-seconds.
// What owed once is not looked at any more.
type accounts struct {
	level [rungs]float32
	need  uint8 // the least share that never owed, as an index
	last  time.Duration
}

// open begins with the whole burst, as the limiter does.
func (a *accounts) open(now time.Duration, burst float32) {
	a.need, a.last = 0, now
	for i := range a.level {
		a.level[i] = burst
	}
}

// charge takes a cost, in CPU-seconds, out of all of them.
func (a *accounts) charge(now time.Duration, cost float64, rates *[rungs]float32, burst float32) {
	passed := float32((now - a.last).Seconds())
	a.last = now
	for i := a.need; i < rungs; i++ {
		a.level[i] = min(burst, a.level[i]+rates[i]*passed) - float32(cost)
	}
	for a.need < rungs && a.level[a.need] < 0 {
		a.need++
	}
}

// needs is how many keys of a class have which need.
type needs [rungs + 1]int

func (n *needs) total() (sum int) {
	for _, x := range n {
		sum += x
	}
	return sum
}

// most is the greatest need, a number of keys left out that have more.
func (n *needs) most(out int) int {
	for i := rungs; i > 0; i-- {
		if out -= n[i]; out < 0 {
			return i
		}
	}
	return 0
}

// usual is the greatest need of a usual client.
func (n *needs) usual() int { return n.most(max(1, n.total()/fewIn)) }

// rates are what the shares of the ladder earn, in CPU-seconds per second.
func rates(cpus float64) (r [rungs]float32) {
	for i, share := range ladder() {
		r[i] = float32(share * cpus)
	}
	return r
}

// rungOf is the first share of the ladder that is not below one; rungs-1 at most.
func rungOf(share float64) int {
	all := ladder()
	i, _ := slices.BinarySearch(all[:], share-1e-9)
	return min(i, rungs-1)
}

// shareOf is that of a need.
func shareOf(need int) float64 {
	all := ladder()
	return all[min(need, rungs-1)]
}

// proposal is what is proposed for a class.
func (c *class) proposal(info limiter.ClassInfo, cpus float64, first bool) Share {
	n := c.needs
	s := Share{Class: info.Name, Now: info.Budget.CPUs / cpus, Keys: n.total()}
	if s.Keys == 0 {
		s.Proposed = s.Now
		return s
	}
	most := n.most(0)
	if first {
		most = n.usual()
	}
	s.Proposed, s.Half, s.Most = shareOf(most), shareOf(n.most(s.Keys/2)), shareOf(n.most(0))
	s.Beyond = n[rungs]
	now := rungOf(s.Now)
	for need, keys := range n {
		if need > now {
			s.OweNow += keys
		}
		if need > most {
			s.OweThen += keys
		}
	}
	return s
}

// Report is what a replay found. Times are seconds.
type Report struct {
	Format  Format    `json:"format"`
	Lines   Lines     `json:"lines"`
	From    time.Time `json:"from"` // the first request, and the last moment that anything ran
	To      time.Time `json:"to"`
	CPUs    float64   `json:"cpus"`
	Workers int       `json:"workers"`
	Mode    string    `json:"mode"`
	Total   Total     `json:"total"`
	Classes []Class   `json:"classes"`
	Hours   []*Hour   `json:"hours"` // those in which anything was asked for, or ran
	Shares  []Share   `json:"shares"`
}

// Total is all requests.
type Total struct {
	Requests        int     `json:"requests"`
	Exempt          int     `json:"exempt"`
	Trusted         int     `json:"trusted"`         // whose address is a trusted proxy's, and so hardly their client's
	CPUSeconds      float64 `json:"cpuSeconds"`      // that the simulated backend used
	AskedCPUSeconds float64 `json:"askedCPUSeconds"` // of all requests, those included that were refused
	Known           Group   `json:"known"`
	Strangers       Group   `json:"strangers"`
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
	Refused    int     `json:"refused"` // or turned away
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

// Share is what is proposed for a class. See need.go for how it is derived.
type Share struct {
	Class    string  `json:"class"`
	Now      float64 `json:"now"`
	Proposed float64 `json:"proposed"`
	Keys     int     `json:"keys"`    // that it is derived from
	Half     float64 `json:"half"`    // what half of them need at most
	Most     float64 `json:"most"`    // what all of them need
	Beyond   int     `json:"beyond"`  // those whom the whole machine would not be enough
	OweNow   int     `json:"oweNow"`  // those that would ever owe with the share of now
	OweThen  int     `json:"oweThen"` // and with the one that is proposed
}

// topKeys is how many keys of a class are told.
const topKeys = 20

func (p *player) report() *Report {
	t := p.tally
	r := &Report{
		Format: p.lines.format, Lines: p.lines.counts, From: t.epoch.Add(t.from), To: t.epoch.Add(t.to),
		CPUs: p.setup.CPUs, Workers: p.setup.Workers, Mode: p.setup.Policy.Mode.String(),
		Total: t.total, Hours: t.hours,
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
	for i, c := range t.classes {
		if c.sum.Requests == 0 {
			continue
		}
		r.Classes = append(r.Classes, Class{Class: c.info.Name, Keys: c.seen, Key: c.sum, Top: c.top(topKeys)})
		r.Shares = append(r.Shares, c.proposal(c.info, t.cpus, i == 0))
	}
	return r
}
