package cpuaccount

import (
	"math"
	"math/bits"
	"slices"
	"testing"
	"time"
)

// close tells whether two numbers are one but for rounding.
func close(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// TestCorrectByOneMeasurement: by how much one look at the CPUs changes the part of its time
// in which each of those that were there is taken to compute.
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
		m := NewMeter(Corrected, 2, 0)
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
				t.Errorf("%s: it is taken to compute in %.4f of its time, want %.4f", name, s.weight, c.want)
			}
		}
	}
}

// TestCorrectBesideReadings: what the kernel counted is not the others'.
func TestCorrectBesideReadings(t *testing.T) {
	m := NewMeter(Process, 2, 0)
	read, other := new(Span), new(Span)
	m.Begin(at(0), read)
	m.Begin(at(0), other)
	other.Assume(0.1)
	read.Measured(at(1), Reading{CPU: sec(0.5)})
	m.Correct(at(1), at(0), Use{CPUs: 0.8 / 2, Own: -1, Lacked: -1}, slices.Values([]*Span{read, other}))
	if !close(other.weight, 0.3) {
		t.Errorf("of 0.8 CPUs 0.5 are the one's that was read; the other one computes in %.4f of its time, want 0.3", other.weight)
	}
}

// TestTendency: a Reading says of the time since the last one whether the request computes,
// which counts by how long that was.
func TestTendency(t *testing.T) {
	for name, c := range map[string]struct {
		first, second Reading
		after         float64 // seconds, the second one after the first, at 1 s
		want          float64
	}{
		"it computes now":           {Reading{CPU: sec(0.5)}, Reading{CPU: sec(0.6)}, 0.1, 0.75},
		"it waits now":              {Reading{CPU: sec(0.5)}, Reading{CPU: sec(0.5)}, 0.1, 0.25},
		"for long":                  {Reading{CPU: sec(0.5)}, Reading{CPU: sec(0.6)}, 1, 0.1},
		"it is queued now":          {Reading{CPU: sec(0.5)}, Reading{CPU: sec(0.5), Queued: sec(0.1)}, 0.1, 0.5},
		"its database is not it":    {Reading{CPU: sec(0.3), Database: sec(0.4)}, Reading{CPU: sec(0.4), Database: sec(0.4)}, 0.1, 0.65},
		"a database that works now": {Reading{CPU: sec(0.3)}, Reading{CPU: sec(0.3), Database: sec(0.1)}, 0.1, 0.15},
	} {
		m, s := NewMeter(Process, 2, 0), new(Span)
		m.Begin(at(0), s)
		s.Measured(at(1), c.first)
		s.Measured(at(1+c.after), c.second)
		if !close(s.weight, c.want) {
			t.Errorf("%s: it is taken to compute in %.4f of its time, want %.4f", name, s.weight, c.want)
		}
	}
}

func TestBeyond(t *testing.T) {
	for _, c := range []struct {
		x, expected float64
		want        bool
	}{{trifle, 0, false}, {trifle + 1e-6, 0, true}, {rash, 1, false}, {rash + 1e-6, 1, true}} {
		if beyond(c.x, c.expected) != c.want {
			t.Errorf("%g is far beyond %g: %t", c.x, c.expected, !c.want)
		}
	}
}

// TestEstimateByHand: an estimate after a few answers, worked out by hand.
func TestEstimateByHand(t *testing.T) {
	var e estimate
	e.learn(2, 1)
	e.learn(4, 3)
	if want := (estimate{mean: 3, dev: 1, idle: 2, n: 2}); e != want {
		t.Errorf("%+v, want %+v", e, want)
	}
	if !close(float64(e.uncertainty()), 1/3.001+0.5) {
		t.Errorf("a doubt of %g", e.uncertainty())
	}
	e = estimate{mean: 1, n: math.MaxUint16}
	if e.learn(1, 0); e.n != math.MaxUint16 {
		t.Errorf("%d answers after the most that are counted", e.n)
	}
	e = estimate{mean: 1, dev: 2 * (rash - 1), n: 9, overran: true}
	if e.learn(1, 0); e.overran {
		t.Error("half of a deviation that was twice what is far beyond is still in doubt")
	}
	if e = (estimate{}); e.atLeast(100, 0) {
		t.Error("a request costs more than answers said, though there were none")
	}
	if e = (estimate{mean: 1, n: 9, overran: true}); e.atLeast(1, 0) || !e.atLeast(1.001, 0) {
		t.Error("of one in doubt, what is more than the mean is too much, and no less")
	}
}

// TestDoubted: a client's own estimate, above and below that of others.
func TestDoubted(t *testing.T) {
	const life = int64(halfLife / time.Millisecond)
	for name, c := range map[string]struct {
		e     estimate
		later int64
		want  float64
	}{
		"cheaper":                {estimate{mean: 1, n: 1}, 0, 1},
		"cheaper, long ago":      {estimate{mean: 1, n: 1}, 9 * life, 1},
		"dearer by one answer":   {estimate{mean: 6, n: 1}, 0, 2 + 4.0/(1+lean)},
		"dearer, half forgot":    {estimate{mean: 6, n: 1}, life, 2 + 4.0/(1+lean)/2},
		"cheaper, and it runs":   {estimate{mean: 1}, 0, 2},
		"dearer, and it runs":    {estimate{mean: 6}, 0, 6},
		"a clock that went back": {estimate{mean: 6}, -life, 6},
	} {
		p := private{at: 100 * life, estimate: c.e}
		if got := p.doubted(100*life+c.later, 2); !close(got, c.want) {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}

// TestOverrunByHand: of two that cost as much the later one is kept, and one is forgotten
// once half of it is less than the least guess.
func TestOverrunByHand(t *testing.T) {
	var o overrun
	o.told(&asker{at: 1, known: true}, 1)
	o.told(&asker{at: 1}, 1)
	if o.known {
		t.Error("of two that cost as much the first one is kept")
	}
	o = overrun{cost: float32(2.1 * floor.Seconds()), at: 1}
	o.answered(&asker{at: 1}, true)
	if o.cost == 0 {
		t.Error("one that is dearer than the least guess is forgotten")
	}
	if o.answered(&asker{at: 1}, true); o.cost != 0 {
		t.Errorf("%g s are kept, less than the least guess", o.cost)
	}
}

// TestFullOfReaders: readers are marked in 64 bits, and counted in smaller parts once 48 of
// them are taken.
func TestFullOfReaders(t *testing.T) {
	by := &asker{known: true, head: 63 << 32}
	for _, c := range []struct {
		taken       int
		level, want uint8
	}{{47, 0, 0}, {48, 0, 1}, {48, 23, 24}, {48, 24, 24}} {
		v := visits{readers: 1<<c.taken - 1, level: c.level}
		v.learn(by, 0)
		if v.level != c.want || v.level != c.level && v.readers != 0 {
			t.Errorf("with %d taken, one of %d is counted, want one of %d, and %d are marked", c.taken, 1<<v.level, 1<<c.want, bits.OnesCount64(v.readers))
		}
	}
	for taken, want := range map[int]struct{ people, marked int64 }{0: {1000, 1}, 47: {1000 * 64 / 17, 48}, 48: {4000, 0}} {
		var s site
		s.readers[0].Store(1<<taken - 1)
		s.learn(by, 0)
		if got := s.people.Load(); got != want.people || bits.OnesCount64(s.readers[0].Load()) != int(want.marked) {
			t.Errorf("with %d taken, one more is %d thousandths, want %d, and %d are marked", taken, got, want.people, bits.OnesCount64(s.readers[0].Load()))
		}
	}
}

// TestCountsStayInTheirBounds: what is asked for more often than can be counted, or is taken
// back more often than it was asked for.
func TestCountsStayInTheirBounds(t *testing.T) {
	var s sketch
	s.init()
	s.ask(7)
	s.change(7, func(f *featureRecord) { f.asked = math.MaxUint32 })
	if s.ask(7); s.times(7) != math.MaxUint32 {
		t.Errorf("after the most it is %d", s.times(7))
	}
	s.change(7, func(f *featureRecord) { f.asked = 1 })
	s.unask(7)
	if s.unask(7); s.times(7) != 0 {
		t.Errorf("%d times", s.times(7))
	}
}

// TestTheStalestMakesRoom: of those that are as stale the first one.
func TestTheStalestMakesRoom(t *testing.T) {
	set := new([ways]private)
	for i := range set {
		set[i] = private{hash: uint64(i + 1), at: 5}
	}
	if place(set, 99); set[0].hash != 99 {
		t.Error("of those that are as stale another one than the first made room")
	}
	set[0].at, set[3].at = 5, 4
	if place(set, 98); set[3].hash != 98 {
		t.Error("the stalest did not make room")
	}
}

// TestHalfComputes: from half of its time on a request counts as one that computes; from less if that is estimated.
func TestHalfComputes(t *testing.T) {
	m, s := NewMeter(Corrected, 2, 0), new(Span)
	m.Begin(at(0), s)
	for weight, want := range map[float64]bool{guessedHalf: true, guessedHalf - 0.01: false} {
		if s.Assume(weight); s.Computes() != want {
			t.Errorf("in %g of its time: %t", weight, !want)
		}
	}
	for used, want := range map[float64]bool{half: true, half - 0.01: false} {
		s := new(Span)
		NewMeter(Process, 2, 0).Begin(at(0), s)
		if s.Measured(at(1), Reading{CPU: sec(used)}); s.Computes() != want {
			t.Errorf("for %g of a second: %t", used, !want)
		}
	}
}

// TestKnown: what a guess rests on, as it is told to people.
func TestKnown(t *testing.T) {
	g := NewEstimator()
	k := Kind{Shape: "/a", Client: "me"}
	if got := g.Known(at(0), k); got.Answers != 0 || got.Own != 0 || got.Sure || got.Several || got.Overran || got.Cost != first {
		t.Errorf("of nothing: %+v", got)
	}
	g.Ask(k)
	if got := g.Known(at(0), k); got.Asked != 1 {
		t.Errorf("asked for once: %+v", got)
	}
	g.Learn(at(0), k, time.Second, 0)
	others(g, "/a", time.Second, time.Second, time.Second)
	if got := g.Known(at(0), k); got.Answers != 4 || got.Own != 1 || !got.Sure || !got.Several || got.Overran || got.Feature != k.feature(0) {
		t.Errorf("after four answers: %+v", got)
	}
}
