package cpuaccount

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func sec(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// TestMeasured has Readings come, and looks what a request costs then.
func TestMeasured(t *testing.T) {
	for name, c := range map[string]struct {
		source   Source
		do       func(m *Meter, s *Span)
		at       float64 // it ends
		want     float64 // CPU-seconds
		idle     float64
		computes bool
		sums     [sums]float64
	}{
		"nothing is read": {Process, func(*Meter, *Span) {}, 1, 1, 0, true, [sums]float64{byEstimate: 1}},
		"all is read": {Process, func(_ *Meter, s *Span) {
			s.Measured(at(1), Reading{CPU: sec(0.3)})
		}, 1, 0.3, 0.7, false, [sums]float64{byProcess: 0.3}},
		"another source": {Corrected, func(_ *Meter, s *Span) {
			s.Measured(at(1), Reading{CPU: sec(0.3)})
		}, 1, 1, 0, true, [sums]float64{byEstimate: 1}},
		"what follows is in the next one": {Process, func(_ *Meter, s *Span) {
			s.Measured(at(1), Reading{CPU: sec(0.3)})
		}, 5, 0.3, 0.7, false, [sums]float64{byProcess: 0.3}},
		"what follows is lost": {Process, func(_ *Meter, s *Span) {
			s.Measured(at(1), Reading{CPU: sec(1)})
			s.Lost(at(1))
		}, 3, 3, 0, true, [sums]float64{byProcess: 1, byEstimate: 2}},
		"lost before it was read": {Process, func(_ *Meter, s *Span) { s.Lost(at(1)) }, 3, 3, 0, true, [sums]float64{byEstimate: 3}},
		"the queue for the CPUs is not idle": {Process, func(_ *Meter, s *Span) {
			s.Measured(at(1), Reading{CPU: sec(0.3), Queued: sec(0.6)})
		}, 1, 0.3, 0.1, true, [sums]float64{byProcess: 0.3}},
		"a database": {Process, func(_ *Meter, s *Span) {
			s.Measured(at(1), Reading{CPU: sec(0.3), Database: sec(0.4)})
		}, 1, 0.7, 0.3, false, [sums]float64{byProcess: 0.3, byDatabase: 0.4}},
		"more than can be": {Process, func(_ *Meter, s *Span) {
			s.Measured(at(1), Reading{CPU: time.Hour, Database: time.Hour})
		}, 1, 2, 0, true, [sums]float64{byProcess: 2}},
		"less than nothing": {Process, func(_ *Meter, s *Span) {
			s.Measured(at(1), Reading{CPU: -time.Hour, Database: -time.Hour, Queued: -time.Hour})
		}, 1, 0, 1, false, [sums]float64{}},
		"after its end": {Process, func(_ *Meter, s *Span) {
			s.End(at(1))
			s.Measured(at(2), Reading{CPU: sec(0.3)})
		}, 2, 1, 0, true, [sums]float64{byEstimate: 1}},
		"nobody accepted it for a while": {Process, func(_ *Meter, s *Span) {
			s.Measured(at(1), Reading{CPU: sec(0.1), Queued: sec(0.2), Unserved: sec(0.6)})
		}, 1, 0.1, 0.1, false, [sums]float64{byProcess: 0.1}},
		"nobody accepted it, for longer than it was there": {Process, func(_ *Meter, s *Span) {
			s.Measured(at(1), Reading{Unserved: time.Hour})
		}, 1, 0, 0, false, [sums]float64{}},
		"paused": {Process, func(_ *Meter, s *Span) {
			s.Pause(at(0.5))
			s.Measured(at(1), Reading{CPU: sec(0.3)})
			s.Resume(at(1))
		}, 1, 0.3, 0.7, false, [sums]float64{byProcess: 0.3}},
	} {
		t.Run(name, func(t *testing.T) {
			m, s := NewMeter(c.source, 2, 0), new(Span)
			m.Begin(at(0), s)
			c.do(m, s)
			computes := s.Computes()
			if got := s.End(at(c.at)); (got-sec(c.want)).Abs() > time.Microsecond || (s.Idle()-sec(c.idle)).Abs() > time.Microsecond || computes != c.computes {
				t.Errorf("it cost %v, was idle %v, computes: %t; want %+v", got, s.Idle(), computes, c)
			}
			got := m.Sums()
			for by, d := range [sums]time.Duration{byEstimate: got.Estimated, byHeader: got.Told, byProcess: got.Process, byDatabase: got.Database} {
				if (d - sec(c.sums[by])).Abs() > time.Microsecond {
					t.Errorf("the sums are %+v, want %v", got, c.sums)
				}
			}
			if m.load.Load() != 0 {
				t.Errorf("the load is %d", m.load.Load())
			}
		})
	}
}

// TestWhoWaitsToBeAcceptedHoldsNoWorker: of four workers of two CPUs, each second is worth half of one of a
// CPU; the time in which nobody had accepted the request is worth nothing, also in the next one's.
func TestWhoWaitsToBeAcceptedHoldsNoWorker(t *testing.T) {
	m, s := NewMeter(Process, 2, 4), new(Span)
	m.Begin(at(0), s)
	if s.Measured(at(10), Reading{Waits: true}); s.SoFar(at(10)) != 0 {
		t.Errorf("it waits to be accepted, and costs %s", s.SoFar(at(10)))
	}
	s.Measured(at(12), Reading{CPU: sec(0.1), Unserved: sec(10)})
	if got := s.End(at(12)); got != sec(1) {
		t.Errorf("a worker was held for two seconds, which cost %s", got)
	}
	m.Begin(at(20), s)
	s.Measured(at(22), Reading{CPU: sec(0.1)})
	if got := s.End(at(22)); got != sec(1) {
		t.Errorf("the next request costs %s", got)
	}
}

// TestWhoIsServedUnseenIsEstimated: a request was seen to wait to be accepted, and is answered, or cannot be read, before it
// is looked at again: what came since is not free. Who was never served pays nothing.
func TestWhoIsServedUnseenIsEstimated(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(s *Span)
		want  float64
		exact bool
	}{
		"it is answered":              {func(s *Span) { s.Served(at(10.2)) }, 0.2, false},
		"it cannot be read":           {func(s *Span) { s.Lost(at(10.1)) }, 0.2, false},
		"it waits still":              {func(*Span) {}, 0, true},
		"it was looked at, and is":    {func(s *Span) { s.SoFar(at(10.15)); s.Served(at(10.2)) }, 0.2, false},
		"it was read, and is":         {func(s *Span) { s.Measured(at(10.2), Reading{CPU: sec(0.05), Unserved: sec(10)}); s.Served(at(10.2)) }, 0.05, true},
		"it was looked at before":     {func(s *Span) { s.SoFar(at(10.1)); s.Measured(at(10.05), Reading{Waits: true}); s.Served(at(10.2)) }, 0.1, false},
		"it waits, as was seen twice": {func(s *Span) { s.Measured(at(10.1), Reading{Waits: true}); s.Served(at(10.2)) }, 0.1, false},
	} {
		m, s := NewMeter(Process, 2, 0), new(Span)
		m.Begin(at(0), s)
		s.Measured(at(10), Reading{Waits: true})
		c.do(s)
		if got := s.End(at(10.2)); (got-sec(c.want)).Abs() > time.Microsecond || (s.mostlyLocked() != byEstimate) != c.exact {
			t.Errorf("%s: it costs %s, mostly by source %d; want %+v", name, got, s.mostlyLocked(), c)
		}
	}
}

// TestMeasuredIsNotCorrected has one request measured beside one that is estimated: what the
// CPUs were used for beyond the first one's is the second one's.
func TestMeasuredIsNotCorrected(t *testing.T) {
	for name, c := range map[string]struct{ use, want float64 }{
		"the other one waits":    {0.35, 0.3},
		"the other one computes": {0.85, 5},
	} {
		m := NewMeter(Process, 2, 0)
		measured, other := new(Span), new(Span)
		m.Begin(at(0), measured)
		m.Begin(at(0), other)
		for i := range 20 {
			now := float64(i+1) / 2
			measured.Measured(at(now), Reading{CPU: sec(0.7 * now)})
			m.Correct(at(now), at(now-0.5), Use{CPUs: c.use, Own: -1, Lacked: -1}, slices.Values([]*Span{measured, other}))
		}
		if got := measured.SoFar(at(10)); got != sec(7) {
			t.Errorf("%s: what is measured as 7 s costs %v", name, got)
		}
		if got := other.SoFar(at(10)).Seconds(); c.want < 1 && got > 2 || c.want > 1 && got < c.want {
			t.Errorf("%s: it costs %.2f s, want about %g", name, got, c.want)
		}
	}
}

// TestSumsOnlyGrow has requests be measured, lost and ended as it comes: what was charged is
// what each cost, and the sums are that, too.
func TestSumsOnlyGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMeter(Process, 2, 0)
		now, all := 0.0, time.Duration(0)
		var before Sums
		for range rapid.IntRange(1, 10).Draw(t, "requests") {
			s := new(Span)
			m.Begin(at(now), s)
			var r Reading
			for range rapid.IntRange(0, 8).Draw(t, "steps") {
				passed := rapid.Float64Range(0, 1).Draw(t, "passed")
				now += passed
				switch rapid.IntRange(0, 3).Draw(t, "what") {
				case 0:
					s.SoFar(at(now))
				case 1:
					s.Lost(at(now))
				default:
					r.CPU += sec(passed * rapid.Float64Range(0, 1).Draw(t, "cpu"))
					r.Queued += sec(passed * rapid.Float64Range(0, 0.5).Draw(t, "queued"))
					r.Database += sec(passed * rapid.Float64Range(0, 1).Draw(t, "database"))
					s.Measured(at(now), r)
				}
			}
			all += s.End(at(now))
			got := m.Sums()
			if got.Estimated < before.Estimated || got.Process < before.Process || got.Database < before.Database {
				t.Fatalf("%+v after %+v", got, before)
			}
			before = got
		}
		sum := before.Estimated + before.Process + before.Database
		if (sum-all).Abs() > time.Microsecond || (time.Duration(m.charged.Load())-all).Abs() > time.Microsecond {
			t.Errorf("the sums are %v, the charges %v, and all cost %v", sum, m.charged.Load(), all)
		}
	})
}

// TestRequestsBySource: each request counts once, where most of its cost is known from.
func TestRequestsBySource(t *testing.T) {
	for name, c := range map[string]struct {
		source Source
		do     func(s *Span)
		want   Requests
	}{
		"nothing tells": {Process, func(*Span) {}, Requests{Estimated: 1}},
		"measured":      {Process, func(s *Span) { s.Measured(at(2), Reading{CPU: sec(0.5)}) }, Requests{Process: 1}},
		"it waited":     {Process, func(s *Span) { s.Measured(at(2), Reading{}) }, Requests{Process: 1}},
		"a database":    {Process, func(s *Span) { s.Measured(at(2), Reading{Database: sec(0.5)}) }, Requests{Process: 1}},
		"lost early": {Process, func(s *Span) {
			s.Measured(at(0.5), Reading{CPU: sec(0.4)})
			s.Lost(at(0.5))
		}, Requests{Estimated: 1}},
		"lost late": {Process, func(s *Span) {
			s.Measured(at(1.9), Reading{CPU: sec(1.5)})
			s.Lost(at(1.9))
		}, Requests{Process: 1}},
		"told late":  {Header, func(s *Span) { s.Tell(at(1.9), http.Header{CostHeader: {"0.5"}}) }, Requests{Told: 1}},
		"told early": {Header, func(s *Span) { s.Tell(at(0.5), http.Header{CostHeader: {"0.5"}}) }, Requests{Estimated: 1}},
	} {
		m, s := NewMeter(c.source, 2, 0), new(Span)
		m.Begin(at(0), s)
		c.do(s)
		s.End(at(2))
		s.End(at(3))
		if got := m.Sums().Requests; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestWhoYieldsLeavesTheCPUs: three pages that compute have stepped down. Beside them one that has not gets a CPU of
// the two, and is charged with all of its time; beside three that compete as it does it gets half of one.
func TestWhoYieldsLeavesTheCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *Span)
		want   float64
	}{
		"they compete":                 {func(*Span) {}, 0.5},
		"they yield":                   {func(s *Span) { s.Yield(0) }, 1},
		"they weigh a third":           {func(s *Span) { s.Yield(1.0 / 3) }, 1},
		"they do not any more":         {func(s *Span) { s.Yield(0); s.Yield(1) }, 0.5},
		"they yielded, and are paused": {func(s *Span) { s.Pause(at(0)); s.Yield(0); s.Resume(at(0)) }, 1},
		"they are not known any more":  {func(s *Span) { s.Measured(at(0), Reading{}); s.Yield(0); s.Lost(at(0)) }, 0.5},
	} {
		m := NewMeter(Process, 2, 0)
		var long [3]Span
		for i := range long {
			m.Begin(at(0), &long[i])
			c.change(&long[i])
		}
		var s Span
		m.Begin(at(0), &s)
		if got := s.End(at(1)); (got - sec(c.want)).Abs() > time.Millisecond {
			t.Errorf("%s: a second costs %s, want %g s", name, got, c.want)
		}
		for i := range long {
			long[i].Yield(0)
			long[i].End(at(2))
			long[i].Yield(1)
		}
		if n := m.load.Load(); n != 0 {
			t.Errorf("%s: nobody is there, and the load is %d", name, n)
		}
	}
}

// TestLoadComesBackToNothing: whatever becomes of requests, in whatever order, once all have ended nobody is taken to be
// at the backend. While some are, the load is never negative, nor more than their number.
func TestLoadComesBackToNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMeter(Process, 2, float64(rapid.IntRange(0, 16).Draw(t, "workers")))
		var spans [4]Span
		now := 0.0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += float64(rapid.IntRange(0, 500).Draw(t, "ms")) / 1000
			s := &spans[rapid.IntRange(0, len(spans)-1).Draw(t, "which")]
			part := rapid.Float64Range(-1, 2).Draw(t, "part")
			switch rapid.SampledFrom([]string{"begin", "end", "assume", "pause", "resume", "yield", "measured", "waits", "lost", "served", "sofar"}).Draw(t, "call") {
			case "begin":
				s.End(at(now)) // a span is begun again once it has ended
				m.Begin(at(now), s)
			case "end":
				s.End(at(now))
			case "assume":
				s.Assume(part)
			case "pause":
				s.Pause(at(now))
			case "resume":
				s.Resume(at(now))
			case "yield":
				s.Yield(part)
			case "measured":
				s.Measured(at(now), Reading{CPU: sec(part), Queued: sec(part / 2), Unserved: sec(part / 3)})
			case "waits":
				s.Measured(at(now), Reading{Waits: true})
			case "lost":
				s.Lost(at(now))
			case "served":
				s.Served(at(now))
			default:
				s.SoFar(at(now))
			}
			if load := m.load.Load(); load < 0 || load > int64(len(spans))*unit {
				t.Fatalf("the load is %d", load)
			}
		}
		for i := range spans {
			if cost := spans[i].End(at(now)); cost < 0 || cost > sec(2*now+1) {
				t.Errorf("a request cost %s in %g s of two CPUs", cost, now)
			}
		}
		if load := m.load.Load(); load != 0 {
			t.Errorf("no request is there, and the load is %d", load)
		}
	})
}
