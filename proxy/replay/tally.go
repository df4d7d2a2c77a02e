package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tempomat/limiter"
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
