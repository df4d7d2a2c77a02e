package cpuaccount

import (
	"net/http"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

func tell(cpu float64) http.Header {
	return http.Header{CostHeader: {strconv.FormatFloat(cpu, 'f', -1, 64)}}
}

// TestDominantResource has a request at the backend for 8 s that tells its CPU
// time at the end.
func TestDominantResource(t *testing.T) {
	for _, tc := range []struct {
		name                       string
		source                     Source
		cpus, workers, told, pause float64
		beside                     int // others at the backend
		want                       float64
	}{
		{"more CPU than worker", Header, 2, 16, 2, 0, 0, 2},
		{"more worker than CPU", Header, 2, 16, 0.5, 0, 0, 1},
		{"a sleeper", Header, 2, 16, 0, 0, 0, 1},
		{"a slow client holds its worker", Header, 2, 16, 0, 6, 0, 1},
		{"a worker is held however many others are", Header, 2, 16, 0.5, 0, 7, 1},
		{"a worker is a CPU at most", Header, 2, 1, 0, 0, 0, 8},
		{"any number of workers", Header, 2, 0, 0.5, 0, 0, 0.5},
		{"less than none", Header, 2, -1, 0.5, 0, 0, 0.5},
		{"corrected", Corrected, 2, 16, 0.5, 0, 3, 4},
		{"wall", Wall, 2, 16, 0.5, 0, 3, 8},
	} {
		m := NewMeter(tc.source, tc.cpus, tc.workers)
		others := make([]Span, tc.beside)
		for i := range others {
			m.Begin(at(0), &others[i])
		}
		var s Span
		m.Begin(at(0), &s)
		s.Pause(at(1))
		s.Resume(at(1 + tc.pause))
		s.Tell(at(8), tell(tc.told))
		if got := s.End(at(8)).Seconds(); got != tc.want {
			t.Errorf("%s: cost %g s, want %g", tc.name, got, tc.want)
		}
	}
}

// TestNoWorkerForLess checks that whatever a backend tells, and whenever, a
// request costs its part of the workers, as long as there are not more requests
// than workers.
func TestNoWorkerForLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.Float64Range(0.5, 8).Draw(t, "cpus")
		workers := rapid.IntRange(1, 16).Draw(t, "workers")
		m := NewMeter(Header, cpus, float64(workers))
		spans := make([]Span, workers)
		for i := range spans {
			m.Begin(at(0), &spans[i])
		}
		s, now, held, paused := &spans[0], 0.0, 0.0, false
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			passed := float64(rapid.IntRange(0, 3000).Draw(t, "ms")) / 1000
			if now += passed; !paused {
				held += passed
			}
			switch rapid.SampledFrom([]string{"tell", "pause", "resume", "sofar", "other"}).Draw(t, "call") {
			case "tell":
				s.Tell(at(now), tell(rapid.Float64Range(0, 3).Draw(t, "told")))
			case "pause":
				if !paused {
					s.Pause(at(now))
				}
				paused = true
			case "resume":
				if paused {
					s.Resume(at(now))
				}
				paused = false
			case "sofar":
				s.SoFar(at(now))
			case "other":
				spans[rapid.IntRange(0, workers-1).Draw(t, "which")].SoFar(at(now))
			}
		}
		least := held * min(1, cpus/float64(workers))
		if got := s.End(at(now)).Seconds(); got < least-1e-6 {
			t.Fatalf("a worker held for %g s cost %g s, want at least %g", held, got, least)
		}
	})
}
