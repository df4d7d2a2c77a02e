package cpuaccount

import (
	"math"
	"slices"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// close reports whether two numbers are equal except for rounding.
func close(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// TestCorrectByOneMeasurement checks how much one measurement of the CPU use changes the weights of the requests
// that were present.
func TestCorrectByOneMeasurement(t *testing.T) {
	for name, c := range map[string]struct {
		spans  int
		weight float64
		used   float64 // CPUs, of two
		since  float64
		want   float64
	}{
		"far too much is charged":       {1, 1, 0.2, 0, 0.27},
		"too much is charged":           {1, 1, 0.5, 0, 1},
		"nearly as much as is used":     {1, 1, 0.9, 0, 1},
		"too little is charged":         {2, 0.1, 1, 0, 0.5},
		"nearly as much as is charged":  {2, 0.2, 0.5, 0, 0.2},
		"no time has passed":            {1, 1, 0, 1, 1},
		"it came since the last look":   {1, 1, 0, -1, 0.1},
		"nothing is used, one is there": {1, 1, 0, 0, 0.05},
	} {
		m := NewMeter(Corrected, 2)
		var spans []*Span
		for range c.spans {
			s := new(Span)
			m.Begin(at(0), s)
			s.Assume(c.weight)
			spans = append(spans, s)
		}
		m.Correct(at(1), at(c.since), Use{CPUs: c.used / 2, Own: -1, Lacked: -1}, slices.Values(spans))
		for _, s := range spans {
			if !close(s.weight, c.want) {
				t.Errorf("%s: it counts as computing for %.4f of its time, want %.4f", name, s.weight, c.want)
			}
		}
	}
}

// TestCorrectWithReadings: CPU time that the kernel counted for one request isn't charged to others.
func TestCorrectWithReadings(t *testing.T) {
	m := NewMeter(Process, 2)
	read, other := new(Span), new(Span)
	m.Begin(at(0), read)
	m.Begin(at(0), other)
	other.Assume(0.1)
	read.Measured(at(1), Reading{CPU: sec(0.5)})
	m.Correct(at(1), at(0), Use{CPUs: 0.8 / 2, Own: -1, Lacked: -1}, slices.Values([]*Span{read, other}))
	if !close(other.weight, 0.3) {
		t.Errorf("0.5 of 0.8 CPUs belong to the request that was read; the other computes for %.4f of its time, want 0.3", other.weight)
	}
	testkit.Same(t, sec(0.5), read.SoFar(at(1)), "the cost of a request measured at 0.5 s")
}

// TestTendency: a Reading shows whether the request has computed since the previous Reading. The longer that time,
// the more the new Reading counts.
func TestTendency(t *testing.T) {
	for name, c := range map[string]struct {
		first, second Reading
		after         float64 // time of the second Reading, in seconds after the first, which is at 1 s
		want          float64
	}{
		"it computes now":           {Reading{CPU: sec(0.5)}, Reading{CPU: sec(0.6)}, 0.1, 0.75},
		"it waits now":              {Reading{CPU: sec(0.5)}, Reading{CPU: sec(0.5)}, 0.1, 0.25},
		"for long":                  {Reading{CPU: sec(0.5)}, Reading{CPU: sec(0.6)}, 1, 0.1},
		"it is queued now":          {Reading{CPU: sec(0.5)}, Reading{CPU: sec(0.5), Queued: sec(0.1)}, 0.1, 0.5},
		"its database is not it":    {Reading{CPU: sec(0.3), Database: sec(0.4)}, Reading{CPU: sec(0.4), Database: sec(0.4)}, 0.1, 0.65},
		"a database that works now": {Reading{CPU: sec(0.3)}, Reading{CPU: sec(0.3), Database: sec(0.1)}, 0.1, 0.15},
	} {
		m, s := NewMeter(Process, 2), new(Span)
		m.Begin(at(0), s)
		s.Measured(at(1), c.first)
		s.Measured(at(1+c.after), c.second)
		if !close(s.weight, c.want) {
			t.Errorf("%s: it counts as computing for %.4f of its time, want %.4f", name, s.weight, c.want)
		}
	}
}

// TestCountsStayInTheirBounds checks features that are requested more often than can be counted, and features
// whose requests are taken back more often than they were made.
func TestCountsStayInTheirBounds(t *testing.T) {
	var s sketch
	s.init()
	s.ask(7)
	s.change(7, func(f *featureRecord) { f.asked = math.MaxUint32 })
	if s.ask(7); s.times(7) != math.MaxUint32 {
		t.Errorf("after the maximum it is %d", s.times(7))
	}
	s.change(7, func(f *featureRecord) { f.asked = 1 })
	s.unask(7)
	if s.unask(7); s.times(7) != 0 {
		t.Errorf("%d times", s.times(7))
	}
}

// TestTheStalestMakesRoom: among entries of the same age, the first one is evicted.
func TestTheStalestMakesRoom(t *testing.T) {
	set := new([ways]private)
	for i := range set {
		set[i] = private{hash: uint64(i + 1), at: 5}
	}
	if place(set, 99); set[0].hash != 99 {
		t.Error("among entries of the same age, one other than the first was evicted")
	}
	set[0].at, set[3].at = 5, 4
	if place(set, 98); set[3].hash != 98 {
		t.Error("the oldest entry wasn't evicted")
	}
}

// TestHalfComputes: a request counts as computing if it uses the CPU for half of its time. If this is only
// estimated, less is enough.
func TestHalfComputes(t *testing.T) {
	m, s := NewMeter(Corrected, 2), new(Span)
	m.Begin(at(0), s)
	for weight, want := range map[float64]bool{guessedHalf: true, guessedHalf - 0.01: false} {
		if s.Assume(weight); s.Computes() != want {
			t.Errorf("for %g of its time: %t", weight, !want)
		}
	}
	for used, want := range map[float64]bool{half: true, half - 0.01: false} {
		s := new(Span)
		NewMeter(Process, 2).Begin(at(0), s)
		if s.Measured(at(1), Reading{CPU: sec(used)}); s.Computes() != want {
			t.Errorf("for %g of a second: %t", used, !want)
		}
	}
}

// TestKnown checks the data behind a guess, as shown to people.
func TestKnown(t *testing.T) {
	g := NewEstimator()
	k := Kind{Shape: "/a", Client: "me"}
	if got := g.Known(at(0), k); got.Answers != 0 || got.Sure || got.Overran || got.Cost != first {
		t.Errorf("of nothing: %+v", got)
	}
	g.Ask(at(0), k)
	testkit.Same(t, 1, g.Known(at(0), k).Asked, "times asked for")
	g.Learn(at(0), k, time.Second, 0)
	others(g, "/a", time.Second, time.Second, time.Second)
	if got := g.Known(at(0), k); got.Answers != 4 || !got.Sure || got.Overran {
		t.Errorf("after four answers: %+v", got)
	}
}
