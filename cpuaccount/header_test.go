package cpuaccount

import (
	"net/http"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

func TestTell(t *testing.T) {
	for _, tc := range []struct {
		name   string
		source Source
		told   []string // 2 s after Begin, at 2 CPUs
		want   float64  // s, at the end after 3 s
	}{
		{"used, and measured on", Header, []string{"0.5"}, 1.5},
		{"all CPUs", Header, []string{"4"}, 5},
		{"zero", Header, []string{"0"}, 1},
		{"minus zero", Header, []string{"-0"}, 1},
		{"exponent", Header, []string{"5e-1"}, 1.5},
		{"too much", Header, []string{"4.001"}, 3},
		{"huge", Header, []string{"1e308"}, 3},
		{"out of range", Header, []string{"1e999"}, 3},
		{"infinite", Header, []string{"+Inf"}, 3},
		{"not a number", Header, []string{"nan"}, 3},
		{"negative", Header, []string{"-0.1"}, 3},
		{"empty", Header, []string{""}, 3},
		{"blank", Header, []string{" 0.5"}, 3},
		{"garbage", Header, []string{"0.5s"}, 3},
		{"two", Header, []string{"0.5", "0.5"}, 3},
		{"none", Header, nil, 3},
		{"wall", Wall, []string{"0.5"}, 3},
		{"corrected", Corrected, []string{"0.5"}, 3},
	} {
		m := NewMeter(tc.source, 2)
		var s Span
		m.Begin(at(0), &s)
		h := http.Header{"Other": {"x"}}
		if tc.told != nil {
			h[CostHeader] = tc.told
		}
		s.Tell(at(2), h)
		if _, ok := h[CostHeader]; ok || len(h) != 1 {
			t.Errorf("%s: the header stays as %v", tc.name, h)
		}
		if x := tc.want - 1; x < 2 && (s.Idle().Seconds() != 2-x || time.Duration(m.charged.Load()).Seconds() != x) {
			t.Errorf("%s: after it, %v is charged, and the request was idle for %v", tc.name, time.Duration(m.charged.Load()), s.Idle())
		}
		testkit.Same(t, tc.want, s.end(at(3)).Seconds(), "%s: cost in s", tc.name)
	}
}

func TestTellWhilePausedAndAfterTheEnd(t *testing.T) {
	m := NewMeter(Header, 1)
	told := func() http.Header { return http.Header{CostHeader: {"0.5"}} }
	var s Span
	m.Begin(at(0), &s)
	s.Pause(at(1))
	s.Tell(at(2), told())
	testkit.Same(t, time.Second/2, s.SoFar(at(3)), "the cost while paused")
	s.Resume(at(3))
	testkit.Same(t, time.Second*3/2, s.end(at(4)), "the cost after it resumed")
	s.Tell(at(5), told())
	testkit.Same(t, time.Second*3/2, s.SoFar(at(5)), "the cost after the end")
}

// FuzzTell checks that no header leads to a cost below zero or above the CPU time of all CPUs, and that the client
// never sees the header.
func FuzzTell(f *testing.F) {
	for _, seed := range []string{"", "0", "0.412", "-1", "NaN", "Inf", "1e308", "0x1p-3", "1_0", "٣", "0.5, 0.5"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, told string) {
		m := NewMeter(Header, 2)
		var s Span
		m.Begin(at(0), &s)
		h := http.Header{CostHeader: {told}}
		s.Tell(at(1), h)
		if got := s.end(at(1)); got < 0 || got > 2*time.Second || len(h) != 0 {
			t.Errorf("%q became %s, the header %v", told, got, h)
		}
	})
}
