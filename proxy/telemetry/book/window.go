package book

import (
	"math"

	"tempomat/proxy/telemetry"
)

const (
	groups        = telemetry.Groups
	recentSeconds = 10 // number of seconds over which rates are averaged
	longest       = 60 // number of seconds that are remembered
	wholeWin      = longest + 1
)

// sums are totals of the requests in a period.
type sums struct {
	over   [groups]telemetry.Sums // sums of finished requests
	cpu    [groups]float64        // CPU-seconds, including those of running requests
	wasted float64                // CPU-seconds for clients that had disconnected
	kept   float64                // number of entries, each of which may represent several requests
	took   [groups]telemetry.Histogram
	used   float64 // sum of the measured uses of the CPUs
	looks  int     // number of measurements in used
}

func (s *sums) merge(o *sums) {
	for g := range groups {
		s.over[g].Add(&o.over[g])
		s.cpu[g] += o.cpu[g]
		s.took[g].Merge(&o.took[g])
	}
	s.wasted += o.wasted
	s.kept += o.kept
	s.used += o.used
	s.looks += o.looks
}

// look adds a measurement of the CPUs' use; a negative one means that it could not be measured.
func (s *sums) look(use float64) {
	if use >= 0 {
		s.used += use
		s.looks++
	}
}

// use returns the mean of the measured uses, or -1 if there are none.
func (s *sums) use() float64 {
	if s.looks == 0 {
		return -1
	}
	return round(s.used / float64(s.looks))
}

func (s *sums) requests(g telemetry.Group) float64 { return float64(s.over[g].Requests()) }

func (s *sums) ended(g telemetry.Group, o telemetry.Outcome) float64 {
	return float64(s.over[g].Ended[o])
}

// all adds up the groups.
func (s *sums) all() (all telemetry.Sums) {
	for g := range s.over {
		all.Add(&s.over[g])
	}
	return all
}

// window holds the sums of each second of the last minute.
type window struct {
	second int     // number of the current second
	at     float64 // seconds since the window began
	ring   [wholeWin]sums
}

// advance moves the window to a time, and clears seconds that are too old.
func (w *window) advance(at float64) {
	w.at = max(w.at, at)
	now := max(0, int(math.Ceil(w.at))-1) // a moment at the end of a second belongs to this second
	for s := max(w.second+1, now-wholeWin+1); s <= now; s++ {
		w.ring[s%wholeWin] = sums{}
	}
	w.second = now
}

// current returns the sums of the current second.
func (w *window) current() *sums { return &w.ring[w.second%wholeWin] }

// last returns the sums of the last seconds, including the current one, and the length of this period. The
// length is at least a second; otherwise rates would be too high right after the start.
func (w *window) last(seconds int) (s *sums, long float64) {
	s = new(sums)
	from := max(0, w.second-seconds+1)
	for i := from; i <= w.second; i++ {
		s.merge(&w.ring[i%wholeWin])
	}
	return s, max(1, w.at-float64(from))
}

// ring keeps the rows that were added last, at most ringRows.
type ring struct {
	rows []telemetry.Entry
	next int // index of the oldest row, which the next one replaces when the ring is full
}

func (r *ring) add(x telemetry.Entry) {
	if len(r.rows) < ringRows {
		r.rows = append(r.rows, x)
		return
	}
	r.rows[r.next] = x
	r.next = (r.next + 1) % ringRows
}
