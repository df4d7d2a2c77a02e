package cpuaccount

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
)

var epoch = time.Unix(1_000_000, 0)

// at returns a time that many seconds after the epoch.
func at(seconds float64) time.Time {
	return epoch.Add(time.Duration(seconds * float64(time.Second)))
}

// step is one call, and the cost so far just after it.
type step struct {
	call string // begin, pause, resume, sofar, end
	at   float64
	want float64 // seconds
}

func TestSpan(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"plain", []step{{"begin", 0, 0}, {"sofar", 1, 1}, {"end", 3, 3}}},
		{"before Begin", []step{{"pause", 0, 0}, {"resume", 1, 0}, {"sofar", 1, 0}, {"end", 2, 0}}},
		{"end twice", []step{{"begin", 0, 0}, {"end", 1, 1}, {"end", 2, 1}, {"sofar", 3, 1}}},
		{"used again", []step{{"begin", 0, 0}, {"end", 1, 1}, {"begin", 5, 0}, {"end", 7, 2}}},
		{"paused", []step{{"begin", 0, 0}, {"pause", 1, 1}, {"sofar", 5, 1}, {"resume", 10, 1}, {"end", 12, 3}}},
		{"pauses overlap", []step{{"begin", 0, 0}, {"pause", 1, 1}, {"pause", 2, 1}, {"resume", 3, 1}, {"sofar", 4, 1}, {"resume", 5, 1}, {"end", 6, 2}}},
		{"end while paused", []step{{"begin", 0, 0}, {"pause", 1, 1}, {"end", 5, 1}, {"resume", 6, 1}, {"pause", 7, 1}, {"end", 8, 1}}},
		{"a Resume too many", []step{{"begin", 0, 0}, {"resume", 1, 1}, {"pause", 2, 2}, {"resume", 4, 2}, {"end", 5, 3}}},
		{"a clock that goes back", []step{{"begin", 2, 0}, {"sofar", 1, 0}, {"sofar", 3, 1}, {"sofar", 2, 1}, {"end", 4, 2}}},
	} {
		for _, source := range []Source{Wall, Corrected, Header} { // the three don't differ for a single request
			m := NewMeter(source, 1)
			var s Span
			for i, st := range tc.steps {
				do(m, &s, st.call, at(st.at))
				testkit.Same(t, st.want, s.SoFar(at(st.at)).Seconds(), "%s, source %d, step %d (%s): cost in s", tc.name, source, i, st.call)
			}
			testkit.Same(t, 0, m.load.Load(), "%s: the load at the end", tc.name)
		}
	}
}

// end ends a span of a request that was not served, and returns its cost.
func (s *Span) end(now time.Time) time.Duration {
	cost, _ := s.End(now, false)
	return cost
}

func do(m *Meter, s *Span, call string, now time.Time) {
	switch call {
	case "begin":
		m.Begin(now, s)
	case "pause":
		s.Pause(now)
	case "resume":
		s.Resume(now)
	case "end":
		s.end(now)
	}
}

// TestCrowd runs n requests on c CPUs for 8 s, with an update every 100 ms.
func TestCrowd(t *testing.T) {
	for _, tc := range []struct {
		n    int
		cpus float64
		want float64
	}{{1, 1, 8}, {2, 1, 4}, {8, 2, 2}, {2, 8, 8}, {1, 0.5, 4}, {3, 1.5, 4}} {
		m := NewMeter(Corrected, tc.cpus)
		spans := make([]Span, tc.n)
		for i := range spans {
			m.Begin(at(0), &spans[i])
		}
		for tick := 1; tick < 80; tick++ {
			for i := range spans {
				spans[i].SoFar(at(float64(tick) / 10))
			}
		}
		for i := range spans {
			if got := spans[i].end(at(8)).Seconds(); got < 0.98*tc.want || got > 1.02*tc.want {
				t.Errorf("%d at %g CPUs: request %d cost %.3f s, want %g", tc.n, tc.cpus, i, got, tc.want)
			}
		}
	}
}

// TestPausedAreNoCrowd checks that a request that waits for its client takes no CPU time from others.
func TestPausedAreNoCrowd(t *testing.T) {
	m := NewMeter(Corrected, 1)
	var busy, waiting Span
	m.Begin(at(0), &waiting)
	waiting.Pause(at(0))
	m.Begin(at(0), &busy)
	testkit.Same(t, 4*time.Second, busy.end(at(4)), "the cost next to a paused request")
	waiting.Resume(at(4))
	testkit.Same(t, time.Second, waiting.end(at(5)), "the cost of the paused request")
}

// TestSpansConcurrently is for the race detector.
func TestSpansConcurrently(t *testing.T) {
	m := NewMeter(Corrected, 2)
	done := make(chan struct{})
	for range 8 {
		go func() {
			var s Span
			inner := make(chan struct{})
			for i := range 200 {
				m.Begin(at(float64(i)), &s)
				go func() {
					s.SoFar(at(float64(i) + 0.5))
					s.Pause(at(float64(i) + 0.6))
					s.Resume(at(float64(i) + 0.7))
					inner <- struct{}{}
				}()
				if i%2 == 0 {
					<-inner
				}
				s.end(at(float64(i) + 1))
				if i%2 == 1 {
					<-inner
				}
			}
			done <- struct{}{}
		}()
	}
	for range 8 {
		<-done
	}
	testkit.Same(t, 0, m.load.Load(), "the load after all have ended")
}

// TestPausedIsIdle: a request that waits for its client holds its worker without computing, and the next
// request of its kind is expected to do the same.
func TestPausedIsIdle(t *testing.T) {
	for _, source := range []Source{Wall, Corrected, Header} {
		m := NewMeter(source, 1)
		var s Span
		for _, st := range []struct {
			call string
			at   float64
			idle time.Duration
		}{{"begin", 0, 0}, {"pause", 1, 0}, {"sofar", 3, 2 * time.Second}, {"resume", 4, 3 * time.Second}, {"sofar", 5, 3 * time.Second}, {"pause", 6, 3 * time.Second}, {"end", 8, 5 * time.Second}} {
			do(m, &s, st.call, at(st.at))
			s.SoFar(at(st.at))
			testkit.Same(t, st.idle, s.Idle(), "source %d, at %g: idle for", source, st.at)
			if st.call == "pause" && s.Computes() {
				t.Errorf("source %d, at %g: it counts as computing while it waits", source, st.at)
			}
		}
	}
}
