package cpuaccount

import (
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

func sec(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// TestMeasured passes Readings to a span, and checks the resulting cost.
func TestMeasured(t *testing.T) {
	for name, c := range map[string]struct {
		source   Source
		do       func(m *Meter, s *Span)
		at       float64 // when it ends
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
			s.end(at(1))
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
			s.Measured(at(1), Reading{CPU: sec(0.8)})
		}, 1, 0.8, 0.2, true, [sums]float64{byProcess: 0.8}},
	} {
		t.Run(name, func(t *testing.T) {
			m, s := NewMeter(c.source, 2), new(Span)
			m.Begin(at(0), s)
			c.do(m, s)
			computes := s.Computes()
			if got := s.end(at(c.at)); (got-sec(c.want)).Abs() > time.Microsecond || (s.Idle()-sec(c.idle)).Abs() > time.Microsecond || computes != c.computes {
				t.Errorf("it cost %v, was idle %v, computes: %t; want %+v", got, s.Idle(), computes, c)
			}
			got := m.Sums()
			for by, d := range [sums]time.Duration{byEstimate: got.Estimated, byHeader: got.Told, byProcess: got.Process, byDatabase: got.Database} {
				if (d - sec(c.sums[by])).Abs() > time.Microsecond {
					t.Errorf("the sums are %+v, want %v", got, c.sums)
				}
			}
			testkit.Same(t, 0, m.load.Load(), "the load")
		})
	}
}

// TestWaitingToBeAcceptedHoldsNoWorker: with four workers on two CPUs, holding a worker for a second costs half a
// CPU-second. The time until a worker accepts the request costs nothing, and isn't charged to the worker's next
// request.
func TestWaitingToBeAcceptedHoldsNoWorker(t *testing.T) {
	m, s := NewMeter(Process, 2), new(Span)
	m.SetWorkers(4)
	m.Begin(at(0), s)
	if s.Measured(at(10), Reading{Waits: true}); s.SoFar(at(10)) != 0 {
		t.Errorf("it waits to be accepted, and costs %s", s.SoFar(at(10)))
	}
	s.Measured(at(12), Reading{CPU: sec(0.1), Unserved: sec(10)})
	testkit.Same(t, sec(1), s.end(at(12)), "the cost of a worker held for two seconds")
	m.Begin(at(20), s)
	s.Measured(at(22), Reading{CPU: sec(0.1)})
	testkit.Same(t, sec(1), s.end(at(22)), "the cost of the next request")
}

// TestUnseenRequestsAreEstimated: a request that was waiting for acceptance in the last Reading is answered, or
// can't be read any more, before the next one. The time since the last Reading isn't free. A request that was never
// served pays nothing.
func TestUnseenRequestsAreEstimated(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(s *Span)
		want  float64
		exact bool
	}{
		"it is answered":              {func(s *Span) { s.End(at(10.2), true) }, 0.2, false},
		"it cannot be read":           {func(s *Span) { s.Lost(at(10.1)) }, 0.2, false},
		"it waits still":              {func(*Span) {}, 0, true},
		"it was looked at, and is":    {func(s *Span) { s.SoFar(at(10.15)); s.End(at(10.2), true) }, 0.2, false},
		"it was read, and is":         {func(s *Span) { s.Measured(at(10.2), Reading{CPU: sec(0.05), Unserved: sec(10)}); s.End(at(10.2), true) }, 0.05, true},
		"it was looked at before":     {func(s *Span) { s.SoFar(at(10.1)); s.Measured(at(10.05), Reading{Waits: true}); s.End(at(10.2), true) }, 0.1, false},
		"it waits, as was seen twice": {func(s *Span) { s.Measured(at(10.1), Reading{Waits: true}); s.End(at(10.2), true) }, 0.1, false},
	} {
		m, s := NewMeter(Process, 2), new(Span)
		m.Begin(at(0), s)
		s.Measured(at(10), Reading{Waits: true})
		c.do(s)
		if got := s.end(at(10.2)); (got-sec(c.want)).Abs() > time.Microsecond || (s.mostlyLocked() != byEstimate) != c.exact {
			t.Errorf("%s: it costs %s, mostly by source %d; want %+v", name, got, s.mostlyLocked(), c)
		}
	}
}

// TestRequestsBySource: each request counts once, for the source of most of its cost.
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
		m, s := NewMeter(c.source, 2), new(Span)
		m.Begin(at(0), s)
		c.do(s)
		s.end(at(2))
		s.end(at(3))
		testkit.Same(t, c.want, m.Sums().Requests, "%s", name)
	}
}

// TestYieldingLeavesTheCPUs: three pages that compute have a lower priority. Next to them, a page with normal
// priority gets one of the two CPUs, and is charged for all of its time. Next to three with the same priority,
// it gets half a CPU.
func TestYieldingLeavesTheCPUs(t *testing.T) {
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
		m := NewMeter(Process, 2)
		var long [3]Span
		for i := range long {
			m.Begin(at(0), &long[i])
			c.change(&long[i])
		}
		var s Span
		m.Begin(at(0), &s)
		if got := s.end(at(1)); (got - sec(c.want)).Abs() > time.Millisecond {
			t.Errorf("%s: a second costs %s, want %g s", name, got, c.want)
		}
		for i := range long {
			long[i].Yield(0)
			long[i].end(at(2))
			long[i].Yield(1)
		}
		testkit.Same(t, 0, m.load.Load(), "%s: the load while no request is present", name)
	}
}

// TestLoadComesBackToNothing: whatever happens to requests, in whatever order, the load is zero after all have
// ended. While some run, the load is never negative or higher than their number. The sums never decrease, and in
// the end match the costs of the requests.
func TestLoadComesBackToNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(0, 16).Draw(t, "workers")
		m := NewMeter(Process, 2)
		m.SetWorkers(float64(workers))
		var spans [4]Span
		var before Sums
		now, all, there := 0.0, time.Duration(0), map[*Span]bool{}
		end := func(s *Span) {
			cost, _ := s.End(at(now), rapid.Bool().Draw(t, "served"))
			if cost < 0 || cost > sec(2*now+1) {
				t.Errorf("a request cost %s in %g s of two CPUs", cost, now)
			}
			if there[s] {
				all += cost
			}
			there[s] = false
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += float64(rapid.IntRange(0, 500).Draw(t, "ms")) / 1000
			s := &spans[rapid.IntRange(0, len(spans)-1).Draw(t, "which")]
			part := rapid.Float64Range(-1, 2).Draw(t, "part")
			switch rapid.SampledFrom([]string{"begin", "end", "assume", "pause", "resume", "yield", "measured", "database", "waits", "lost", "sofar"}).Draw(t, "call") {
			case "begin":
				end(s) // the span is then used again
				m.Begin(at(now), s)
				there[s] = true
			case "end":
				end(s)
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
			case "database":
				s.Measured(at(now), Reading{CPU: sec(now / 4), Database: sec(now * part)})
			case "waits":
				s.Measured(at(now), Reading{Waits: true})
			case "lost":
				s.Lost(at(now))
			default:
				s.SoFar(at(now))
			}
			if load := m.load.Load(); load < 0 || load > int64(len(spans))*unit {
				t.Fatalf("the load is %d", load)
			}
			got := m.Sums()
			if got.Estimated < before.Estimated || got.Process < before.Process || got.Database < before.Database {
				t.Fatalf("%+v after %+v", got, before)
			}
			before = got
		}
		for i := range spans {
			end(&spans[i])
		}
		testkit.Same(t, 0, m.load.Load(), "the load while no request is present")
		got := m.Sums()
		if sum := got.Estimated + got.Process + got.Database; workers == 0 && (sum-all).Abs() > time.Microsecond {
			t.Errorf("the sums are %v, but all requests cost %v", sum, all)
		}
	})
}
