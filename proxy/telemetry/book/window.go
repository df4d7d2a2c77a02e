package book

import (
	"math"

	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/sketch"
)

const (
	groups   = telemetry.Groups
	lately   = 10 // seconds that rates are of
	longest  = 60 // seconds that are remembered
	wholeWin = longest + 1
)

// sums are what requests of some time add up to.
type sums struct {
	cpu, n, refused, redirected [groups]float64
	wasted                      float64
	kept                        float64 // entries; n counts what they stand for
	took                        [groups]sketch.Histogram
	backend                     telemetry.AtBackend
}

func (s *sums) merge(o *sums) {
	for g := range groups {
		s.cpu[g] += o.cpu[g]
		s.n[g] += o.n[g]
		s.refused[g] += o.refused[g]
		s.redirected[g] += o.redirected[g]
		s.took[g].Merge(&o.took[g])
	}
	s.backend.Add(&o.backend)
	s.wasted += o.wasted
	s.kept += o.kept
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

// last are the sums of that many seconds, of which the last one goes on, and how long they
// have been: a second at least, so that nothing is multiplied at the very beginning.
func (w *window) last(seconds int) (s *sums, long float64) {
	s = new(sums)
	from := max(0, w.second-seconds+1)
	for i := from; i <= w.second; i++ {
		s.merge(&w.ring[i%wholeWin])
	}
	return s, max(1, w.at-float64(from))
}
