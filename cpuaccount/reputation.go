package cpuaccount

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// day is how long a reader counts once. At its turn all sums are halved: a night
	// without people does not undo what a day taught, and what nobody reads any more
	// is forgotten within a week.
	day = 24 * time.Hour
	// oneReader is what one client alone can make of the readers of something by
	// coming every day: 1 + 1/2 + 1/4 ... That much does not count.
	oneReader = 2
	// fewPeople and fewSeconds are how many people, and how much of strangers' time,
	// there must be before shares of them say much.
	fewPeople  = 3
	fewSeconds = 10
	// fewShare is the share of people, or of strangers' time, below which something
	// is too rare to have a reputation.
	fewShare = 0.02
)

// visits is who asks for something.
type visits struct {
	readers uint64  // which of the known people did today, by a part of their hashes
	level   uint8   // of as many as 2 to the power of this one is counted, for all of them
	day     int32   // since 1970
	people  float32 // known people, one of today as 1, one of yesterday as a half
	strange float32 // strangers' CPU-seconds, the same
}

// turn begins a new day.
func (v *visits) turn(today int32) {
	if n := today - v.day; n > 0 {
		v.people, v.strange = halved(v.people, n), halved(v.strange, n)
		v.readers, v.level, v.day = 0, 0, today
	}
}

func halved(x float32, times int32) float32 { return float32(math.Ldexp(float64(x), -int(times))) }

// learn counts an answer that cost x seconds.
func (v *visits) learn(by *asker, x float64) {
	v.turn(dayOf(by.at))
	if !by.known {
		v.strange += float32(x)
		return
	}
	bit := uint64(1) << (by.head >> 32 % 64)
	if v.readers&bit != 0 || by.head>>38&(1<<v.level-1) != 0 {
		return
	}
	// As many come unseen, as somebody else had their bit, as bits are taken.
	v.people += float32(uint64(1)<<v.level) * 64 / float32(64-bits.OnesCount64(v.readers))
	if v.readers |= bit; bits.OnesCount64(v.readers) > 48 && v.level < 24 {
		v.readers, v.level = 0, v.level+1
	}
}

func dayOf(ms int64) int32 { return int32(ms / day.Milliseconds()) } //nolint:gosec // of days there are few

// site is the known people and the strangers' time of all requests.
type site struct {
	day     atomic.Int32
	people  atomic.Int64        // thousandths
	strange atomic.Int64        // microseconds
	readers [1024]atomic.Uint64 // room for some 90,000 people; beyond that some count twice
}

// learn counts an answer. At the turn of a day one or two may get lost.
func (s *site) learn(by *asker, cost time.Duration) {
	if today := dayOf(by.at); s.day.Load() < today {
		s.turn(today)
	}
	if !by.known {
		s.strange.Add(cost.Microseconds())
		return
	}
	word, bit := &s.readers[by.head>>38%uint64(len(s.readers))], uint64(1)<<(by.head>>32%64)
	if word.Load()&bit != 0 {
		return
	}
	taken := bits.OnesCount64(word.Or(bit))
	s.people.Add(1000 * 64 / int64(64-min(taken, 63)))
	if taken >= 48 {
		word.Store(0)
	}
}

func (s *site) turn(today int32) {
	was := s.day.Load()
	if was >= today || !s.day.CompareAndSwap(was, today) {
		return
	}
	n := min(today-was, 63)
	s.people.Store(s.people.Load() >> n)
	s.strange.Store(s.strange.Load() >> n)
	for i := range s.readers {
		s.readers[i].Store(0)
	}
}

// Reputation is what is known of who asks for the like of a request.
type Reputation struct {
	// Value is from 0, only strangers ask for it, to 1, only known people do. It is
	// 0.5 while nothing is known.
	Value float64
	// Rare is true if too few asked for it to say anything.
	Rare bool
	// Feature is what the value is of: the request's shape, its URL, or a parameter.
	Feature string
	// Readers is how many known people asked for it, and People how many there are:
	// those of today as 1, of yesterday as a half, of the day before as a quarter.
	Readers, People float64
	// Strange is the CPU time that strangers' requests for it took, and Strangers
	// what all of theirs took, of yesterday half of it and so on.
	Strange, Strangers time.Duration
}

// Reputation tells strangers who come for what people read from those who come
// for what only robots read. It is the share of the known people who asked for
// something on a day next to the share of the strangers' CPU time that goes there.
//
// Known people are counted by heads, and strangers by time: a crawler that became
// known is one head, however much it asks for, and one head alone makes no
// reputation; strangers can only spoil one by working there, and have that much
// less of the rest. Of the shape, the URL and the parameters the one with the
// worst reputation counts, if it is not too rare to have one: the history of a
// page that all read is still a history.
func (g *Estimator) Reputation(k Kind) float64 {
	_, r := g.reputation(&k)
	return r.Value
}

// Explain is the Reputation with its reasons.
func (g *Estimator) Explain(k Kind) Reputation {
	i, r := g.reputation(&k)
	r.Feature = k.feature(i)
	return r
}

func (g *Estimator) reputation(k *Kind) (feature int, worst Reputation) {
	var buffer [maxFeatures]uint64
	today := g.site.day.Load()
	all := Reputation{
		People:    float64(g.site.people.Load()) / 1000,
		Strangers: time.Duration(g.site.strange.Load()) * time.Microsecond,
	}
	worst.Value = math.Inf(1)
	for i, hash := range g.features(k, &buffer) {
		var v visits
		g.kinds.change(hash, func(f *featureRecord) {
			f.visits.turn(today)
			v = f.visits
		})
		r := all
		if r.Rare = !r.judge(v); r.Value < worst.Value && (!r.Rare || i == 0) {
			feature, worst = i, r
		}
	}
	return feature, worst
}

// judge fills in the rest, and tells whether it is common enough to say much.
func (r *Reputation) judge(v visits) (common bool) {
	r.Readers, r.Strange = float64(v.people), seconds(float64(v.strange))
	people := max(0, r.Readers-oneReader) / (r.People + fewPeople)
	strange := r.Strange.Seconds() / (r.Strangers.Seconds() + fewSeconds)
	people, strange = min(people, 1), min(strange, 1)
	r.Value = (people + fewShare/2) / (people + strange + fewShare)
	return people+strange >= fewShare
}
