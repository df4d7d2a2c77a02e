package cpuaccount

import (
	"testing"
	"time"
)

// TestRecent: Growth covers the last minute, and excludes other Meters.
func TestRecent(t *testing.T) {
	var r Recent
	m, now := NewMeter(Process, 2), time.Unix(0, 0)
	if s, d := r.Growth(now, m); s != (Sums{}) || d != 0 {
		t.Errorf("before Note: %+v in %v", s, d)
	}
	for n := range 300 {
		now = now.Add(time.Second)
		r.Note(now, m)
		s, d := r.Growth(now, m)
		if seconds := int(d / time.Second); n < 60 && seconds > n || n >= 60 && (seconds < 30 || seconds >= 60) {
			t.Fatalf("after %d s it covers %v", n, d)
		}
		if s.Process != d || s.Requests.Process != uint64(2*d/time.Second) || s.Estimated != 0 {
			t.Fatalf("after %d s: %+v in %v", n, s, d)
		}
		m.sums[byProcess].Add(int64(time.Second))
		m.requests[byProcess].Add(2)
	}
	if s, d := r.Growth(now, NewMeter(Process, 2)); s != (Sums{}) || d != 0 {
		t.Errorf("for another Meter: %+v in %v", s, d)
	}
}
