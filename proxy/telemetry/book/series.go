package book

import (
	"math"
	"time"

	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

const (
	groups   = telemetry.Groups
	lately   = 10 // seconds that rates are of
	longest  = 60 // seconds that are remembered
	wholeWin = longest + 1
)

// sums are what requests of some time add up to.
type sums struct {
	over   [groups]telemetry.Sums // those that are over
	cpu    [groups]float64        // CPU-seconds, also of those that run
	wasted float64                // of these
	kept   float64                // entries; each may stand for many
	took   [groups]telemetry.Histogram
}

func (s *sums) merge(o *sums) {
	for g := range groups {
		s.over[g].Add(&o.over[g])
		s.cpu[g] += o.cpu[g]
		s.took[g].Merge(&o.took[g])
	}
	s.wasted += o.wasted
	s.kept += o.kept
}

func (s *sums) requests(g telemetry.Group) float64 { return float64(s.over[g].Requests()) }

func (s *sums) ended(g telemetry.Group, o telemetry.Outcome) float64 {
	return float64(s.over[g].Ended[o])
}

// all is all groups together.
func (s *sums) all() (all telemetry.Sums) {
	for g := range s.over {
		all.Add(&s.over[g])
	}
	return all
}

// window is the last minute, by the second.
type window struct {
	second int     // that goes on
	at     float64 // seconds since the beginning
	ring   [wholeWin]sums
}

// advance forgets what is too old.
func (w *window) advance(at float64) {
	w.at = max(w.at, at)
	now := max(0, int(math.Ceil(w.at))-1) // what is told of at its end was in it
	for s := max(w.second+1, now-wholeWin+1); s <= now; s++ {
		w.ring[s%wholeWin] = sums{}
	}
	w.second = now
}

// current are the sums of the second that goes on.
func (w *window) current() *sums { return &w.ring[w.second%wholeWin] }

// last are the sums of that many seconds, the last one still running, and their length: at
// least a second, so nothing is multiplied at the very beginning.
func (w *window) last(seconds int) (s *sums, long float64) {
	s = new(sums)
	from := max(0, w.second-seconds+1)
	for i := from; i <= w.second; i++ {
		s.merge(&w.ring[i%wholeWin])
	}
	return s, max(1, w.at-float64(from))
}

// series is a curve: points at even steps, the last ones of them.
type series struct {
	step   int // seconds
	turn   int // of the steps
	points ring[api.Point]
	most   int
	gauges gauges
}

// ring is the last ones of many.
type ring[T any] struct {
	rows []T
	next int // where the next one goes once there are enough
}

// add takes one in, of which so many are kept.
func (r *ring[T]) add(x T, most int) {
	if len(r.rows) < most {
		r.rows = append(r.rows, x)
		return
	}
	r.rows[r.next] = x
	r.next = (r.next + 1) % most
}

// last is the newest one but i.
func (r *ring[T]) last(i int) *T { return &r.rows[(r.next+len(r.rows)-1-i)%len(r.rows)] }

func newSeries(seconds, step int) series { return series{step: step, most: seconds / step} }

// gauges are a step's values of what has a number at each moment: the worst of what people wait
// for, so no peak falls between two points, otherwise the mean or the last.
type gauges struct {
	looks   int
	waiting [groups]int
	longest time.Duration
	busy    int
	use     float64 // sum
	workers int
	room    int
}

func (g *gauges) add(m *Moment) {
	g.looks++
	for i, n := range m.Waiting.Count {
		g.waiting[i] = max(g.waiting[i], n)
		g.longest = max(g.longest, m.Waiting.Longest[i])
	}
	g.busy = max(g.busy, m.Gate.Busy)
	g.use += m.Gate.Utilisation
	g.workers, g.room = max(m.Gate.Workers, g.busy), m.Gate.Room
}

// due reports whether a step is over.
func (s *series) due(at float64) bool {
	turn := int(at) / s.step
	was := s.turn
	s.turn = turn
	return s.step == 1 || turn != was
}

// add takes in what the step that is over was.
func (s *series) add(p api.Point) {
	s.gauges = gauges{}
	s.points.add(p, s.most)
}

// use is the mean of the measured CPU use in the last seconds of a curve by the second; -1: not
// measured.
func (s *series) use(seconds int) float64 {
	sum, n := 0.0, 0
	for i := range min(seconds, len(s.points.rows)) {
		if p := s.points.last(i); p.Use >= 0 {
			sum, n = sum+p.Use, n+1
		}
	}
	if n == 0 {
		return -1
	}
	return round(sum / float64(n))
}

// point is what the last seconds were.
func point(w *window, seconds int, believed float64, g *gauges) (p api.Point) {
	s, long := w.last(seconds)
	for i, group := range telemetry.ShownGroups() {
		p.CPU[i], p.Rate[i] = rate(s.cpu[group]*believed, long), rate(s.requests(group), long)
		p.P50[i], p.P95[i] = round(s.took[group].Quantile(0.5)), round(s.took[group].Quantile(0.95))
		p.Waiting[i] = g.waiting[group]
		p.Refused += rate(s.ended(group, telemetry.Refused), long)
		p.Redirected += rate(s.ended(group, telemetry.Redirected), long)
	}
	p.Refused, p.Redirected, p.Wasted = round(p.Refused), round(p.Redirected), round(wasted(s, long)*believed)
	p.Longest, p.Busy, p.Workers, p.Room = round(g.longest.Seconds()), g.busy, g.workers, g.room
	p.Use = round(g.use / float64(max(1, g.looks)))
	return p
}

// Series is the curve of the last 5, 60 or 1440 minutes, at steps of 1, 10 and 60 s; false
// for any other number.
func (b *Book) Series(minutes int) (api.SeriesReply, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.series {
		s := &b.series[i]
		if s.most*s.step == minutes*60 {
			p := &s.points
			points := append(append([]api.Point{}, p.rows[p.next:]...), p.rows[:p.next]...)
			return api.SeriesReply{Version: api.Version, Step: float64(s.step), Points: points}, true
		}
	}
	return api.SeriesReply{}, false
}
