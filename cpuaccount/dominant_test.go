package cpuaccount

import (
	"net/http"
	"strconv"
	"testing"

	"tempomat/internal/testkit"
)

func tell(cpu float64) http.Header {
	return http.Header{CostHeader: {strconv.FormatFloat(cpu, 'f', -1, 64)}}
}

// TestDominantResource: a request at the backend for 8 s reports its CPU time at the end.
func TestDominantResource(t *testing.T) {
	for _, tc := range []struct {
		name                       string
		source                     Source
		cpus, workers, told, pause float64
		beside                     int // other requests at the backend
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
		m := NewMeter(tc.source, tc.cpus)
		m.SetWorkers(tc.workers)
		others := make([]Span, tc.beside)
		for i := range others {
			m.Begin(at(0), &others[i])
		}
		var s Span
		m.Begin(at(0), &s)
		s.Pause(at(1))
		s.Resume(at(1 + tc.pause))
		s.Tell(at(8), tell(tc.told))
		testkit.Same(t, tc.want, s.end(at(8)).Seconds(), "%s: cost in s", tc.name)
	}
}
